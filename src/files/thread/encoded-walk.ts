import type { WalkEntry, WalkResult } from '../file-system.ts';
import { WALK_RESPONSE_BYTES } from '../limits.ts';

/** The result of a walk whose entries are JSON already, as an answer has them: most of the time nobody looks at them one by one. */
export class EncodedWalk implements WalkResult {
  /** The entries with commas between them; ASCII. */
  readonly text: Buffer;
  readonly errors: WalkResult['errors'];
  readonly truncated: boolean;
  #entries: readonly WalkEntry[] | null = null;

  /** Takes texts as {@link WalkText} gives them, in their order. */
  constructor(texts: readonly ArrayBuffer[], { errors, truncated }: Omit<WalkResult, 'entries'>) {
    this.text = joined(texts).subarray(0, -COMMA.length);
    this.errors = errors;
    this.truncated = truncated;
  }

  get entries(): readonly WalkEntry[] {
    this.#entries ??= (JSON.parse(`[${this.text.toString('latin1')}]`) as EncodedEntry[]).map(
      ({ path, kind }) => ({ uri: path, kind }),
    );
    return this.#entries;
  }
}

interface EncodedEntry {
  readonly path: string;
  readonly kind: WalkEntry['kind'];
}

function joined(texts: readonly ArrayBuffer[]): Buffer {
  const buffers = texts.map((text) => Buffer.from(text));
  return buffers.length === 1 ? buffers[0]! : Buffer.concat(buffers);
}

/** An entry as JSON. Path URIs have nothing that JSON would escape, and nothing outside ASCII. */
export function encodeWalkEntry(uri: string, kind: WalkEntry['kind']): string {
  return `${BEFORE_URI}${uri}${AFTER_URI[kind]}`;
}

const COMMA = ',';
const BEFORE_URI = '{"path":"';
const AFTER_URI = { file: '","kind":"file"}', directory: '","kind":"directory"}' } as const;

/** Room for the text of any walk: what {@link encodeWalkEntry} and a comma add to a URI is less than what an entry is counted for. */
export function roomForWalkText(): Buffer {
  return Buffer.allocUnsafeSlow(WALK_RESPONSE_BYTES);
}

/**
 * Gathers the entries of a walk as bytes, which is what a thread can hand over. What entries have in common is copied from the one
 * before: making a string of each took twice the time.
 */
export class WalkText {
  readonly #bytes: Buffer;
  #length = 0;
  #directory: string | null = null;
  /** Where an entry of that directory begins, and how much of it all its entries have. */
  #model = 0;
  #modelLength = 0;

  /** Overwrites `room` and never has more than that. */
  constructor(room: Buffer) {
    this.#bytes = room;
  }

  /** Adds an entry with a comma behind it. `directory` is what its URI begins with, `name` the rest of it. */
  add(directory: string, name: string, kind: WalkEntry['kind']): void {
    if (directory === this.#directory) {
      this.#bytes.copyWithin(this.#length, this.#model, this.#model + this.#modelLength);
      this.#length += this.#modelLength;
    } else {
      this.#directory = directory;
      this.#model = this.#length;
      this.#write(BEFORE_URI);
      this.#write(directory);
      this.#modelLength = this.#length - this.#model;
    }
    this.#write(name);
    this.#write(AFTER_URI[kind]);
    this.#write(COMMA);
  }

  /** A copy of the text, in memory of its own that can be handed over. */
  copy(): ArrayBuffer {
    return new Uint8Array(this.#bytes.subarray(0, this.#length)).buffer;
  }

  #write(text: string): void {
    const bytes = this.#bytes;
    const start = this.#length;
    for (let index = 0; index < text.length; index++) bytes[start + index] = text.charCodeAt(index);
    this.#length = start + text.length;
  }
}
