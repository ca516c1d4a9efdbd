/**
 * Takes the text between two marks out of a stream. What comes before the first is dropped as it arrives, however much it is; what
 * comes after the second is of no interest.
 */
export class MarkedOutput {
  readonly #mark: Buffer;
  readonly #maxBytes: number;
  #kept: Buffer[] = [];
  #keptBytes = 0;
  #begun = false;
  #content: Buffer | null = null;

  /** A mark stands between two NUL bytes. Nothing longer than `maxBytes` is kept. */
  constructor(mark: string, maxBytes: number) {
    this.#mark = Buffer.from(`\0${mark}\0`);
    this.#maxBytes = maxBytes;
  }

  /** What stands between the marks; null as long as it is not complete. */
  get content(): Buffer | null {
    return this.#content;
  }

  /** Whether it is too long to be kept. */
  get overflown(): boolean {
    return this.#begun && this.#keptBytes > this.#maxBytes + this.#mark.length;
  }

  /** The bytes are only looked at during the call. */
  push(bytes: Buffer): void {
    if (this.#content !== null || this.overflown) return;
    if (!this.#begun) this.#seek(bytes);
    else this.#keep(bytes);
  }

  #seek(bytes: Buffer): void {
    const joined = Buffer.concat([...this.#kept, bytes]);
    const at = joined.indexOf(this.#mark);
    this.#begun = at !== -1;
    this.#kept = [];
    if (this.#begun) this.#keep(joined.subarray(at + this.#mark.length));
    // The mark may have arrived in part.
    else this.#kept = [joined.subarray(Math.max(0, joined.length - this.#mark.length + 1))];
  }

  #keep(bytes: Buffer): void {
    this.#kept.push(Buffer.from(bytes));
    this.#keptBytes += bytes.length;
    if (this.#keptBytes < this.#mark.length) return;
    // Only the end is new, and the mark may begin in front of it.
    const before = this.#kept.length > 1 ? this.#tailBeforeLast(this.#mark.length - 1) : NOTHING;
    const at = Buffer.concat([before, this.#kept.at(-1)!]).indexOf(this.#mark);
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
