import { TextDecoder } from 'node:util';
import { shownLine } from '../text/visible.ts';

interface LineLimits {
  readonly startLine: number;
  readonly maxLines: number;
  readonly maxBytes: number;
  readonly maxLineCharacters: number;
}

/** Takes a range of lines out of a text that arrives in blocks, within limits. */
export class LineReader {
  readonly #limits: LineLimits;
  readonly #decoder = new TextDecoder();
  readonly #lines: string[] = [];
  /** The beginning of the present line, and its whole length. */
  #line = '';
  #length = 0;
  /** Whether the present line ends with a carriage return so far. */
  #endsWithReturn = false;
  #lineNumber = 1;
  #bytes = 0;
  #scannedBytes = 0;
  #isFull = false;
  #isCut = false;
  #crlf = 0;

  constructor(limits: LineLimits) {
    this.#limits = limits;
  }

  get scannedBytes(): number {
    return this.#scannedBytes;
  }

  /** Whether lines follow that were not returned. Known after {@link finish}. */
  get hasMore(): boolean {
    return this.#isFull;
  }

  /** Takes a block. Returns true when no more is needed. */
  push(block: Uint8Array): boolean {
    this.#scannedBytes += block.length;
    this.#take(this.#decoder.decode(block, { stream: true }));
    return this.#isFull;
  }

  /** Returns the lines. `isComplete`: the last block was pushed. The total is null when the end was not reached. */
  finish(isComplete: boolean): {
    readonly lines: readonly string[];
    readonly totalLines: number | null;
    readonly isCut: boolean;
    readonly hasCrlf: boolean;
  } {
    if (!this.#isFull) this.#take(this.#decoder.decode());
    if (!this.#isFull && this.#length > 0) this.#endLine();
    return {
      lines: this.#lines,
      totalLines: this.#isFull || !isComplete ? null : this.#lineNumber - 1,
      isCut: this.#isCut,
      hasCrlf: this.#crlf > 0,
    };
  }

  #take(text: string): void {
    for (let start = 0; start < text.length && !this.#isFull; ) {
      const end = text.indexOf('\n', start);
      this.#append(text.slice(start, end === -1 ? text.length : end));
      if (end === -1) return;
      this.#length++;
      this.#endLine();
      start = end + 1;
    }
  }

  #append(part: string): void {
    if (part === '') return;
    // Another line begins than those that are returned.
    if (this.#lines.length >= this.#limits.maxLines) this.#isFull = true;
    this.#length += part.length;
    this.#endsWithReturn = part.endsWith('\r');
    if (this.#lineNumber < this.#limits.startLine) return;
    const room = this.#limits.maxLineCharacters + 1 - this.#line.length;
    if (room > 0) this.#line += part.slice(0, room);
  }

  #endLine(): void {
    const isWanted = this.#lineNumber >= this.#limits.startLine;
    if (isWanted && !this.#isFull) this.#keep();
    if (!this.#isFull) this.#lineNumber++;
    this.#line = '';
    this.#length = 0;
    this.#endsWithReturn = false;
  }

  #keep(): void {
    const { maxLines, maxBytes, maxLineCharacters } = this.#limits;
    const isLong = this.#line.length > maxLineCharacters;
    const line = isLong ? `${this.#line.slice(0, maxLineCharacters)}…` : this.#line.replace(/\r$/, '');
    const size = Buffer.byteLength(shownLine(line)) + LINE_OVERHEAD_BYTES;
    // The first line is returned in any case, so that there is progress.
    if (this.#lines.length >= maxLines || (this.#lines.length > 0 && this.#bytes + size > maxBytes)) {
      this.#isFull = true;
      return;
    }
    this.#isCut ||= isLong;
    if (this.#endsWithReturn) this.#crlf++;
    this.#bytes += size;
    this.#lines.push(line);
  }
}

/** The number of a line, a tab and a line break. */
const LINE_OVERHEAD_BYTES = 8;
