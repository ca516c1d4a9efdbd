/** Delays between attempts: each twice the one before, up to a maximum. */
export class Backoff {
  readonly #firstMs: number;
  readonly #maxMs: number;
  readonly #jitter: () => number;
  #nextMs: number;

  /** Each delay is multiplied by what `jitter` returns. */
  constructor(firstMs: number, maxMs: number, jitter: () => number = () => 1) {
    this.#firstMs = firstMs;
    this.#maxMs = maxMs;
    this.#jitter = jitter;
    this.#nextMs = firstMs;
  }

  next(): number {
    const ms = this.#nextMs;
    this.#nextMs = Math.min(ms * 2, this.#maxMs);
    return ms * this.#jitter();
  }

  reset(): void {
    this.#nextMs = this.#firstMs;
  }
}

/** Shortens a delay at random by up to a half, so that many clients do not reconnect at the same moment. */
export function shorteningJitter(): number {
  return 0.5 + Math.random() / 2;
}

/** Lengthens a delay at random by up to a half. */
export function lengtheningJitter(): number {
  return 1 + Math.random() / 2;
}
