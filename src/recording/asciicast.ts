import { isObject } from '../base/is-object.ts';

/**
 * The kinds of events: output, input, marker, resize, exit status.
 * @see https://docs.asciinema.org/manual/asciicast/v3/
 */
export type EventCode = 'o' | 'i' | 'm' | 'r' | 'x';

/** An event with the time since the start, in microseconds. */
export interface CastEvent {
  readonly atUs: number;
  readonly code: EventCode;
  readonly text: string;
}

/** The first line of a recording. */
export interface CastHeader {
  readonly version: 3;
  readonly term: { readonly cols: number; readonly rows: number; readonly type?: string };
  /** Unix time in seconds. */
  readonly timestamp: number;
  readonly command?: string;
  readonly title?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** Not part of the format. Players ignore it. */
  readonly exec_server?: CastSubject;
}

/** The process that a recording shows. */
export interface CastSubject {
  readonly ref: string;
  readonly owner: string;
  readonly name?: string;
  readonly tty: boolean;
}

/** Encodes an event. The time counts from the event before it. */
export function encodeEvent({ atUs, code, text }: CastEvent, previousUs: number): string {
  return `[${Math.max(0, atUs - previousUs) / 1e6}, "${code}", ${JSON.stringify(text)}]\n`;
}

/** Reads the lines of a recording in the formats v2 and v3. */
export class CastReader {
  /** Null before the first line. */
  header: CastHeader | null = null;
  #absoluteTimes = false;
  #atUs = 0;

  /** Returns the event of a line; null for the header and for a comment. Throws an Error that says what is wrong with the line. */
  line(line: string): CastEvent | null {
    if (this.header === null) {
      this.#readHeader(line);
      return null;
    }
    if (line.startsWith('#') || line === '') return null;
    const event: unknown = parsed(line);
    if (!isEvent(event)) throw new Error('expected [time, code, text]');
    const [time, code, text] = event;
    const us = Math.round(time * 1e6);
    this.#atUs = this.#absoluteTimes ? us : this.#atUs + us;
    return { atUs: this.#atUs, code: code as EventCode, text };
  }

  #readHeader(line: string): void {
    const header: unknown = parsed(line);
    if (!isObject(header)) throw new Error('expected a header');
    if (header.version === 2) {
      const { width, height, ...rest } = header;
      this.#absoluteTimes = true;
      this.header = { timestamp: 0, ...rest, version: 3, term: termOf(width, height) };
      return;
    }
    if (header.version !== 3) throw new Error('expected a recording in the format asciicast v2 or v3');
    const term = isObject(header.term) ? header.term : {};
    this.header = {
      timestamp: 0,
      ...header,
      version: 3,
      term: {
        ...termOf(term.cols, term.rows),
        ...(typeof term.type === 'string' && { type: term.type }),
      },
    };
  }
}

function parsed(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    throw new Error('it is not JSON');
  }
}

function isEvent(value: unknown): value is [number, string, string] {
  if (!Array.isArray(value) || value.length < 3) return false;
  const [time, code, text] = value as unknown[];
  return (
    typeof time === 'number' && Number.isFinite(time) && typeof code === 'string' && typeof text === 'string'
  );
}

function termOf(cols: unknown, rows: unknown): { cols: number; rows: number } {
  const size = (value: unknown) =>
    Number.isInteger(value) && (value as number) > 0 && (value as number) < 65_536;
  if (!size(cols) || !size(rows)) throw new Error('the header has no size of the terminal');
  return { cols: cols as number, rows: rows as number };
}
