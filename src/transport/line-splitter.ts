const LF = 0x0a;
const CR = 0x0d;

/** Cuts a byte stream into lines without their line ends. A line over the limit throws; the splitter is unusable afterwards. */
export class LineSplitter {
  readonly #maxLineBytes: number;
  #parts: Buffer[] = [];
  #partBytes = 0;

  constructor(maxLineBytes: number) {
    this.#maxLineBytes = maxLineBytes;
  }

  /** The lines that `chunk` completes. */
  *push(chunk: Buffer): Generator<Buffer, void> {
    let from = 0;
    for (let end = chunk.indexOf(LF); end >= 0; end = chunk.indexOf(LF, from)) {
      this.#add(chunk.subarray(from, end));
      from = end + 1;
      yield this.#take();
    }
    if (from < chunk.length) this.#add(chunk.subarray(from));
  }

  /** What stands behind the last line end; the splitter is empty afterwards. */
  rest(): Buffer {
    return this.#take();
  }

  #add(part: Buffer): void {
    this.#partBytes += part.length;
    if (this.#partBytes > this.#maxLineBytes)
      throw new Error(`a line is longer than ${this.#maxLineBytes} bytes`);
    this.#parts.push(part);
  }

  #take(): Buffer {
    const line = this.#parts.length === 1 ? this.#parts[0]! : Buffer.concat(this.#parts, this.#partBytes);
    this.#parts = [];
    this.#partBytes = 0;
    return line.at(-1) === CR ? line.subarray(0, -1) : line;
  }
}
