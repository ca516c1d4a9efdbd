/** Cuts bytes into lines. A line that is longer than the limit is an error: what follows would be taken for a message. */
export class LineSplitter {
  readonly #maxBytes: number;
  #pieces: Uint8Array[] = [];
  #length = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** The lines that the bytes complete, without their ends. Throws when a line is too long. */
  *push(bytes: Uint8Array): Generator<string> {
    let from = 0;
    for (let end = bytes.indexOf(NEWLINE); end >= 0; end = bytes.indexOf(NEWLINE, from)) {
      this.#keep(bytes.subarray(from, end));
      from = end + 1;
      yield this.#take();
    }
    if (from < bytes.length) this.#keep(bytes.subarray(from));
  }

  #keep(piece: Uint8Array): void {
    this.#length += piece.length;
    if (this.#length > this.#maxBytes) throw new Error(`a line has more than ${this.#maxBytes} bytes`);
    this.#pieces.push(piece);
  }

  #take(): string {
    const line = Buffer.concat(this.#pieces, this.#length).toString('utf8');
    this.#pieces = [];
    this.#length = 0;
    return line.endsWith('\r') ? line.slice(0, -1) : line;
  }
}

const NEWLINE = 10;
