import { FOLD_REST_FACTOR } from './limits.ts';

/** Decides when evicted output may be folded: for one terminal of the server at a time, with pauses in between. */
export class FoldBudget {
  readonly #now: () => number;
  #beganAt: number | null = null;
  #restUntil = 0;

  constructor(now: () => number = () => performance.now()) {
    this.#now = now;
  }

  /** Whether the caller may fold. It calls `end` afterwards. */
  tryBegin(): boolean {
    if (this.#beganAt !== null || this.#now() < this.#restUntil) return false;
    this.#beganAt = this.#now();
    return true;
  }

  end(): void {
    if (this.#beganAt === null) return;
    const now = this.#now();
    this.#restUntil = now + (now - this.#beganAt) * FOLD_REST_FACTOR;
    this.#beganAt = null;
  }
}
