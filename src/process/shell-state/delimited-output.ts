/**
 * Extracts the content between two delimiters from a stream. Drops any amount of output before the first one as it arrives, and
 * ignores what follows the second.
 */
export class DelimitedOutput {
  readonly #delimiter: Buffer;
  readonly #maxBytes: number;
  #kept: Buffer[] = [];
  #keptBytes = 0;
  #begun = false;
  #content: Buffer | null = null;

  /** A delimiter is enclosed in two NUL bytes. Content longer than `maxBytes` is not kept. */
  constructor(delimiter: string, maxBytes: number) {
    this.#delimiter = Buffer.from(`\0${delimiter}\0`);
    this.#maxBytes = maxBytes;
  }

  /** The content between the delimiters; null until it is complete. */
  get content(): Buffer | null {
    return this.#content;
  }

  /** Whether the content is too long to keep. */
  get overflowed(): boolean {
    return this.#begun && this.#keptBytes > this.#maxBytes + this.#delimiter.length;
  }

  /** The bytes are read only during the call. */
  push(bytes: Buffer): void {
    if (this.#content !== null || this.overflowed) return;
    if (!this.#begun) this.#seek(bytes);
    else this.#keep(bytes);
  }

  #seek(bytes: Buffer): void {
    const joined = Buffer.concat([...this.#kept, bytes]);
    const at = joined.indexOf(this.#delimiter);
    this.#begun = at !== -1;
    this.#kept = [];
    if (this.#begun) this.#keep(joined.subarray(at + this.#delimiter.length));
    // The end may be the beginning of the delimiter.
    else this.#kept = [joined.subarray(Math.max(0, joined.length - this.#delimiter.length + 1))];
  }

  #keep(bytes: Buffer): void {
    this.#kept.push(Buffer.from(bytes));
    this.#keptBytes += bytes.length;
    if (this.#keptBytes < this.#delimiter.length) return;
    // Only the end is new, but the delimiter may begin before it.
    const before = this.#kept.length > 1 ? this.#tailBeforeLast(this.#delimiter.length - 1) : NOTHING;
    const at = Buffer.concat([before, this.#kept.at(-1)!]).indexOf(this.#delimiter);
    if (at === -1) return;
    const end = this.#keptBytes - bytes.length - before.length + at;
    this.#content = Buffer.concat(this.#kept).subarray(0, end);
    this.#kept = [];
  }

  #tailBeforeLast(length: number): Buffer {
    let tail = NOTHING;
    for (let index = this.#kept.length - 2; index >= 0 && tail.length < length; index--) {
      const piece = this.#kept[index]!;
      tail = Buffer.concat([piece.subarray(Math.max(0, piece.length - (length - tail.length))), tail]);
    }
    return tail;
  }
}

const NOTHING: Buffer = Buffer.alloc(0);
