/** Pauses between attempts: each twice the one before, up to a limit, and stretched at random so that many do not return at once. */
export class Pauses {
  readonly #firstMs: number;
  readonly #longestMs: number;
  readonly #stretch: () => number;
  #nextMs: number;

  /** `stretch` is what each pause is multiplied by. */
  constructor(firstMs: number, longestMs: number, stretch: () => number) {
    this.#firstMs = firstMs;
    this.#longestMs = longestMs;
    this.#stretch = stretch;
    this.#nextMs = firstMs;
  }

  next(): number {
    const ms = this.#nextMs;
    this.#nextMs = Math.min(ms * 2, this.#longestMs);
    return ms * this.#stretch();
  }

  reset(): void {
    this.#nextMs = this.#firstMs;
  }
}
