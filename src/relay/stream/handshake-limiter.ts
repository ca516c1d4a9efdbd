import { HANDSHAKE_COOLDOWN_MS, MAX_FAILED_HANDSHAKES } from '../limits.ts';

/** Refuses handshakes for a time after too many have failed. Each costs the executor work and its registry a question. */
export class HandshakeLimiter {
  readonly #now: () => number;
  #failures = 0;
  #closedUntilMs = 0;

  constructor(now: () => number) {
    this.#now = now;
  }

  /** Whether a new handshake may begin. */
  get open(): boolean {
    return this.#now() >= this.#closedUntilMs;
  }

  /** Counts a failure. Successes in between make up for nothing; after the pause the count starts over. */
  failed(): void {
    this.#failures++;
    if (this.#failures < MAX_FAILED_HANDSHAKES) return;
    this.#failures = 0;
    this.#closedUntilMs = this.#now() + HANDSHAKE_COOLDOWN_MS;
  }
}
