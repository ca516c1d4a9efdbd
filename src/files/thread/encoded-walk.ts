import type { WalkEntry, WalkResult } from '../file-system.ts';
import { WALK_RESPONSE_BYTES } from '../limits.ts';

/** The result of a walk whose entries are already JSON, in the form of the response. Most callers never need the single entries. */
export class EncodedWalk implements WalkResult {
  /** The entries, separated by commas; ASCII. */
  readonly text: Buffer;
  readonly errors: WalkResult['errors'];
  readonly truncated: boolean;
  #entries: readonly WalkEntry[] | null = null;

  /** `texts` come from {@link WalkText}, in order. */
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

/** An entry as JSON. Path URIs are ASCII and contain nothing that JSON escapes. */
export function encodeWalkEntry(uri: string, kind: WalkEntry['kind']): string {
  return `${BEFORE_URI}${uri}${AFTER_URI[kind]}`;
}

const COMMA = ',';
const BEFORE_URI = '{"path":"';
const AFTER_URI = { file: '","kind":"file"}', directory: '","kind":"directory"}' } as const;

/**
 * A buffer for the text of any walk. What {@link encodeWalkEntry} and a comma add to a URI is less than the size that the walk
 * counts for an entry.
 */
export function walkTextBuffer(): Buffer {
  return Buffer.allocUnsafeSlow(WALK_RESPONSE_BYTES);
}

/**
 * Collects the entries of a walk as bytes, which a thread can transfer. Each entry copies the prefix of its directory from the
 * previous entry: building a string for each entry took twice the time.
 */
export class WalkText {
  readonly #bytes: Buffer;
  #length = 0;
  #directory: string | null = null;
  /** Start and length of the prefix that the entries of the current directory share. */
  #prefixStart = 0;
  #prefixLength = 0;

  /** Overwrites `buffer`, which must be large enough. */
  constructor(buffer: Buffer) {
    this.#bytes = buffer;
  }

  /** Adds an entry and a comma. `directory` is the start of its URI, `name` the rest. */
  add(directory: string, name: string, kind: WalkEntry['kind']): void {
    if (directory === this.#directory) {
      this.#bytes.copyWithin(this.#length, this.#prefixStart, this.#prefixStart + this.#prefixLength);
      this.#length += this.#prefixLength;
    } else {
      this.#directory = directory;
      this.#prefixStart = this.#length;
      this.#write(BEFORE_URI);
      this.#write(directory);
      this.#prefixLength = this.#length - this.#prefixStart;
    }
    this.#write(name);
    this.#write(AFTER_URI[kind]);
    this.#write(COMMA);
  }

  /** A copy of the text in an ArrayBuffer that can be transferred. */
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
