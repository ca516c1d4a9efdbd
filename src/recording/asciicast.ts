import { isObject } from '../base/is-object.ts';

/**
 * The kinds of events: output, input, marker, resize, exit status.
 * @see https://docs.asciinema.org/manual/asciicast/v3/
 */
export type EventCode = (typeof CODES)[number];

const CODES = ['o', 'i', 'm', 'r', 'x'] as const;

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
interface CastSubject {
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
  /** The format of the recording. */
  version: 2 | 3 = 3;
  #atUs = 0;

  /** Returns the event of a line; null for the header, a comment and an event of an unknown kind. Throws an Error that says what is wrong with the line. */
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
    const atUs = this.version === 2 ? us : this.#atUs + us;
    if (time < 0 || !Number.isSafeInteger(atUs)) throw new Error('the time is negative or too large');
    this.#atUs = atUs;
    return isKnown(code) ? { atUs, code, text } : null;
  }

  #readHeader(line: string): void {
    const header: unknown = parsed(line);
    if (!isObject(header)) throw new Error('expected a header');
    const { width, height, timestamp: _, command, title, env, exec_server, ...others } = header;
    if (header.version === 2) {
      this.version = 2;
      this.header = { ...others, ...describing(header), version: 3, term: termOf(width, height) };
      return;
    }
    if (header.version !== 3) throw new Error('expected a recording in the format asciicast v2 or v3');
    const term = isObject(header.term) ? header.term : {};
    this.header = {
      ...others,
      ...describing(header),
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

function isKnown(code: string): code is EventCode {
  return (CODES as readonly string[]).includes(code);
}

/** The members of a header that describe the recording. Throws when one has the wrong type; null stands for none. */
function describing(header: Readonly<Record<string, unknown>>): Omit<CastHeader, 'version' | 'term'> {
  const { timestamp, command, title, env, exec_server: subject } = header;
  return {
    timestamp: timestamp == null ? 0 : checked('timestamp', timestamp, isTimestamp),
    ...(command != null && { command: checked('command', command, isText) }),
    ...(title != null && { title: checked('title', title, isText) }),
    ...(env != null && { env: textsOf(checked('env', env, isObject)) }),
    ...(subject != null && { exec_server: checked('exec_server', subject, isSubject) }),
  };
}

function checked<Type>(name: string, value: unknown, is: (value: unknown) => value is Type): Type {
  if (is(value)) return value;
  throw new Error(`the header has an invalid \`${name}\``);
}

function isText(value: unknown): value is string {
  return typeof value === 'string';
}

function isTimestamp(value: unknown): value is number {
  return typeof value === 'number' && value >= 0 && value <= MAX_TIMESTAMP;
}

/** The last second that a Date can represent. */
const MAX_TIMESTAMP = 8.64e12;

function isSubject(value: unknown): value is CastSubject {
  if (!isObject(value)) return false;
  const { ref, owner, name, tty } = value;
  return isText(ref) && isText(owner) && (name === undefined || isText(name)) && typeof tty === 'boolean';
}

/** Some recorders write null for a variable that is not set. */
function textsOf(env: Readonly<Record<string, unknown>>): Record<string, string> {
  const entries = Object.entries(env);
  return Object.fromEntries(entries.filter((entry): entry is [string, string] => isText(entry[1])));
}

function termOf(cols: unknown, rows: unknown): { cols: number; rows: number } {
  const size = (value: unknown) =>
    Number.isInteger(value) && (value as number) > 0 && (value as number) < 65_536;
  if (!size(cols) || !size(rows)) throw new Error('the header has no size of the terminal');
  return { cols: cols as number, rows: rows as number };
}
