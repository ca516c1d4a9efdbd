import type { OutputSource } from './spawner.ts';

/** What a wrapper says, in one byte, before it executes the program that it was given. */
export class WrapperReport {
  /** Null when the pipe was closed without a byte. */
  readonly first: Promise<number | null>;
  readonly #source: OutputSource;

  /** Owns the source. */
  constructor(source: OutputSource) {
    this.#source = source;
    this.first = new Promise((resolve) => {
      source.listen(
        (bytes) => resolve(bytes[0] ?? null),
        () => resolve(null),
      );
      source.resume();
    });
    void this.first.then(() => source.destroy());
  }

  /** Nobody waits any more; the report that has not come is null. */
  discard(): void {
    this.#source.destroy();
  }
}
