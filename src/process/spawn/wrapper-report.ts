import type { OutputSource } from './spawner.ts';

/** What a wrapper says, in one byte, before it executes the program that it was given. */
export class WrapperReport {
  readonly #source: OutputSource;
  #first: Promise<number | null> | null = null;

  /** Owns the source. */
  constructor(source: OutputSource) {
    this.#source = source;
  }

  /**
   * Null when the pipe was closed without a byte. Nothing is read before this is asked for, because a pipe that is read keeps the event
   * loop alive.
   */
  get first(): Promise<number | null> {
    this.#first ??= this.#read();
    return this.#first;
  }

  /** Nobody waits any more; the report that has not come is null. */
  discard(): void {
    this.#first ??= Promise.resolve(null);
    this.#source.destroy();
  }

  async #read(): Promise<number | null> {
    const first = await new Promise<number | null>((resolve) => {
      this.#source.listen(
        (bytes) => resolve(bytes[0] ?? null),
        () => resolve(null),
      );
      this.#source.resume();
    });
    this.#source.destroy();
    return first;
  }
}
