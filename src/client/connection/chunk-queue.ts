/** Received bytes that wait for their reader. */
export class ChunkQueue {
  readonly #maxChunks: number;
  /** Counts bytes that start to wait, or stop when negative. Returns false when too many bytes wait. */
  readonly #count: (bytes: number) => boolean;
  #chunks: Uint8Array[] = [];
  #done = false;
  #failure: Error | null = null;
  #wake: () => void = () => {};

  /** More than `maxChunks` waiting chunks are joined, because small chunks cost more than their bytes. */
  constructor(maxChunks: number, count: (bytes: number) => boolean) {
    this.#maxChunks = maxChunks;
    this.#count = count;
  }

  /** Whether no more chunks are accepted. */
  get done(): boolean {
    return this.#done;
  }

  /** Adds a chunk for the reader. Returns false when too many bytes wait. */
  push(bytes: Uint8Array): boolean {
    this.#chunks.push(bytes);
    if (this.#chunks.length > this.#maxChunks) this.#chunks = [concat(this.#chunks)];
    const accepted = this.#count(bytes.length);
    this.#wake();
    return accepted;
  }

  /** Accepts no more chunks. The reader gets the waiting ones, and then the end or the error. */
  end(failure: Error | null = null): void {
    if (this.#done) return;
    this.#failure = failure;
    this.#done = true;
    this.#wake();
  }

  /** Drops the waiting chunks and ends the queue, with the error if there is one. */
  drop(failure: Error | null = null): void {
    for (const chunk of this.#chunks) this.#count(-chunk.length);
    this.#chunks = [];
    this.#failure = failure;
    this.#done = true;
    this.#wake();
  }

  /** Returns the next chunk, or null at the end. Rejects with the error of the end. */
  async next(): Promise<Uint8Array | null> {
    for (;;) {
      const chunk = this.#chunks.shift();
      if (chunk !== undefined) {
        this.#count(-chunk.length);
        return chunk;
      }
      if (this.#failure !== null) throw this.#failure;
      if (this.#done) return null;
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
    }
  }
}

function concat(chunks: readonly Uint8Array[]): Uint8Array {
  const whole = new Uint8Array(chunks.reduce((sum, { length }) => sum + length, 0));
  let end = 0;
  for (const chunk of chunks) {
    whole.set(chunk, end);
    end += chunk.length;
  }
  return whole;
}
