import type { WalkEntry, WalkResult } from '../file-system.ts';
import { WALK_TEXT_AT_ONCE_CHARACTERS, WALK_TEXT_BYTES } from '../limits.ts';

/** The result of a walk whose entries are JSON already, as an answer has them: most of the time nobody looks at them one by one. */
export class EncodedWalk implements WalkResult {
  /** The entries with commas between them; ASCII. */
  readonly text: Buffer;
  readonly errors: WalkResult['errors'];
  readonly truncated: boolean;
  #entries: readonly WalkEntry[] | null = null;

  constructor(text: Buffer, { errors, truncated }: Omit<WalkResult, 'entries'>) {
    this.text = text;
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

/** An entry as JSON. Path URIs have nothing that JSON would escape, and nothing outside ASCII. */
export function encodeWalkEntry(uri: string, kind: WalkEntry['kind']): string {
  return `{"path":"${uri}","kind":"${kind}"}`;
}

/**
 * Gathers the entries of a walk. They become bytes, which is what a thread can hand over, some at a time: writing costs more per call
 * than per character.
 */
export class WalkText {
  #bytes = Buffer.allocUnsafeSlow(WALK_TEXT_BYTES);
  #length = 0;
  #unwritten = '';
  #isFirst = true;

  add(uri: string, kind: WalkEntry['kind']): void {
    this.#unwritten += this.#isFirst ? encodeWalkEntry(uri, kind) : `,${encodeWalkEntry(uri, kind)}`;
    this.#isFirst = false;
    if (this.#unwritten.length >= WALK_TEXT_AT_ONCE_CHARACTERS) this.#write();
  }

  /** The text, in memory of its own that can be handed over. */
  take(): ArrayBuffer {
    this.#write();
    return this.#bytes.buffer.slice(0, this.#length) as ArrayBuffer;
  }

  #write(): void {
    const text = this.#unwritten;
    this.#unwritten = '';
    if (this.#length + text.length > this.#bytes.length) this.#grow(text.length);
    this.#length += this.#bytes.write(text, this.#length, 'latin1');
  }

  #grow(bytes: number): void {
    const larger = Buffer.allocUnsafeSlow(Math.max(this.#bytes.length * 2, this.#length + bytes));
    this.#bytes.copy(larger, 0, 0, this.#length);
    this.#bytes = larger;
  }
}
