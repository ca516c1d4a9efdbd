import type { OpenFile } from '../files/file-system.ts';

/**
 * An open file whose operations come one at a time, even when the caller gave one up and goes on: a descriptor must not be closed
 * under an operation, because the next file to be opened gets its number.
 */
export class SerialFile {
  readonly #file: OpenFile;
  #last: Promise<unknown> = Promise.resolve();
  #unfinished = 0;

  constructor(file: OpenFile) {
    this.#file = file;
  }

  read(position: number, length: number): Promise<Uint8Array> {
    return this.#inTurn(() => this.#file.read(position, length));
  }

  write(position: number, bytes: Uint8Array): Promise<void> {
    return this.#inTurn(() => this.#file.write(position, bytes));
  }

  close(): Promise<void> {
    return this.#inTurn(() => this.#file.close());
  }

  /** Ends the file without effect where that is possible. Does not wait for an operation that is still under way. */
  async discard(): Promise<void> {
    const idle = this.#unfinished === 0;
    const discarded = this.#inTurn(() => this.#file.discard()).catch(() => undefined);
    if (idle) await discarded;
  }

  async #inTurn<T>(operation: () => Promise<T>): Promise<T> {
    this.#unfinished++;
    const result = this.#last.then(operation);
    this.#last = result.catch(() => undefined);
    try {
      return await result;
    } finally {
      this.#unfinished--;
    }
  }
}
