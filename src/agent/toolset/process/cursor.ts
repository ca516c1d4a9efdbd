import { ToolFailure } from '../failure.ts';

/**
 * A position in the output of a process: behind the event `seq`, and behind `offset` bytes of the next chunk, which has `length` bytes.
 * `bytes` is all output before the position; null when unknown.
 */
export interface Position {
  readonly seq: number;
  readonly bytes: number | null;
  readonly offset: number;
  readonly length: number;
}

export const START: Position = { seq: 0, bytes: 0, offset: 0, length: 0 };

/** The position as a text for a model. It begins with some characters of the reference of the process, unless it is the beginning. */
export function cursorOf({ seq, bytes, offset, length }: Position, ref: string): string {
  if (seq === 0 && bytes === 0 && offset === 0) return '0';
  const start = `${markOf(ref)}-${seq}`;
  if (offset === 0) return bytes === null ? start : `${start}.${bytes}`;
  return `${start}.${bytes ?? UNKNOWN}.${offset}.${length}`;
}

/** Reads a cursor of a process. Throws ToolFailure for a text that is none, and for a cursor of another process. */
export function positionOf(cursor: string, ref: string): Position {
  const [, mark, seq, bytes, offset = '0', length = '0'] = CURSOR.exec(cursor.trim()) ?? [];
  const position = {
    seq: Number(seq),
    bytes: bytes === undefined || bytes === UNKNOWN ? null : Number(bytes),
    offset: Number(offset),
    length: Number(length),
  };
  const isInside = position.offset === 0 || position.offset < position.length;
  if (seq !== undefined && isInside && (position.bytes ?? position.offset) >= position.offset) {
    if (mark === markOf(ref)) return position;
    if (mark === undefined && position.seq === 0 && !position.bytes) return START;
    throw new ToolFailure(
      `The cursor ${JSON.stringify(cursor.trim())} ${mark === undefined ? 'does not say to which process it belongs' : `belongs to another process than ${ref}`}. Pass the cursor of an earlier answer about this process, "0" for the beginning, or leave it out.`,
    );
  }
  throw new ToolFailure(
    `${JSON.stringify(cursor.slice(0, 60))} is not a cursor. Pass the cursor of an earlier answer about the same process, or leave it out.`,
  );
}

/** The part of a cursor that names its process. */
function markOf(ref: string): string {
  return ref.replace(/\W/g, '').slice(0, 4) || '_';
}

const UNKNOWN = 'x';
const CURSOR = /^(?:(\w{1,4})-)?(\d{1,15})(?:\.(\d{1,15}|x)(?:\.(\d{1,15})\.(\d{1,15}))?)?$/;
