import { asBuffer } from './as-buffer.ts';

const LF = 0x0a;
const CR = 0x0d;

/** Splits a byte stream into lines without their line ends. Throws for a line over the limit; the splitter is unusable afterwards. */
export class LineSplitter {
  maxLineBytes: number;
  #parts: Uint8Array[] = [];
  #partBytes = 0;

  constructor(maxLineBytes: number) {
    this.maxLineBytes = maxLineBytes;
  }

  /** Yields the lines that `chunk` completes. They may share the memory of the chunk. */
  *push(chunk: Uint8Array): Generator<Buffer, void> {
    let from = 0;
    for (let end = chunk.indexOf(LF); end >= 0; end = chunk.indexOf(LF, from)) {
      this.#add(chunk.subarray(from, end));
      from = end + 1;
      yield this.#take();
    }
    if (from < chunk.length) this.#add(chunk.subarray(from));
  }

  /** Returns the bytes after the last line end; the splitter is empty afterwards. */
  rest(): Buffer {
    return this.#take();
  }

  #add(part: Uint8Array): void {
    this.#partBytes += part.length;
    if (this.#partBytes > this.maxLineBytes)
      throw new Error(`a line is longer than ${this.maxLineBytes} bytes`);
    this.#parts.push(part);
  }

  #take(): Buffer {
    const [part] = this.#parts;
    const isWhole = part !== undefined && this.#parts.length === 1;
    const line = isWhole ? asBuffer(part) : Buffer.concat(this.#parts, this.#partBytes);
    this.#parts = [];
    this.#partBytes = 0;
    return line.at(-1) === CR ? line.subarray(0, -1) : line;
  }
}
