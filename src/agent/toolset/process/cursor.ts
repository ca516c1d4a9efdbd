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

/** The position as a text for a model. */
export function cursorOf({ seq, bytes, offset, length }: Position): string {
  if (offset === 0) return bytes === null ? String(seq) : `${seq}.${bytes}`;
  return `${seq}.${bytes ?? UNKNOWN}.${offset}.${length}`;
}

/** Reads a cursor. A sequence number alone is one, too. Throws ToolFailure. */
export function positionOf(cursor: string): Position {
  const [, seq, bytes, offset = '0', length = '0'] = CURSOR.exec(cursor.trim()) ?? [];
  const position = {
    seq: Number(seq),
    bytes: bytes === undefined || bytes === UNKNOWN ? null : Number(bytes),
    offset: Number(offset),
    length: Number(length),
  };
  const isInside = position.offset === 0 || position.offset < position.length;
  if (seq !== undefined && isInside && (position.bytes ?? position.offset) >= position.offset)
    return seq === '0' && bytes === undefined ? START : position;
  throw new ToolFailure(
    `${JSON.stringify(cursor.slice(0, 60))} is not a cursor. Pass the cursor of an earlier answer about the same process, or leave it out.`,
  );
}

const UNKNOWN = 'x';
const CURSOR = /^(\d{1,15})(?:\.(\d{1,15}|x)(?:\.(\d{1,15})\.(\d{1,15}))?)?$/;
