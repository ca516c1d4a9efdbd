import {
  AUTH_FAILURE_FIRST_DELAY_MS,
  AUTH_FAILURE_FORGOTTEN_MS,
  AUTH_FAILURE_LONGEST_DELAY_MS,
  AUTH_FAILURES_REMEMBERED,
} from '../limits.ts';
import { countedAddress } from '../listen/connection-places.ts';

interface Failures {
  readonly count: number;
  readonly lastMs: number;
}

/**
 * How long the answer to a wrong token is held back: longer with every failure from an address, up to a limit, and short again
 * after a while without. It never delays a right token, so nobody can lock out others behind the same address.
 */
export class FailureDelay {
  /** By address, the longest without a failure first. */
  readonly #failures = new Map<string, Failures>();
  readonly #now: () => number;

  constructor(now: () => number = () => process.uptime() * 1_000) {
    this.#now = now;
  }

  /** Notes a failure; returns the milliseconds to wait. Everybody on this machine counts as one. */
  failed(address: string | null): number {
    const key = countedAddress({ remoteAddress: address ?? undefined }) ?? 'this machine';
    const nowMs = this.#now();
    const before = this.#failures.get(key);
    const count =
      before === undefined || nowMs - before.lastMs > AUTH_FAILURE_FORGOTTEN_MS ? 1 : before.count + 1;
    this.#failures.delete(key);
    this.#failures.set(key, { count, lastMs: nowMs });
    const [oldest] = this.#failures.keys();
    if (this.#failures.size > AUTH_FAILURES_REMEMBERED && oldest !== undefined) this.#failures.delete(oldest);
    return Math.min(AUTH_FAILURE_FIRST_DELAY_MS * 2 ** (count - 1), AUTH_FAILURE_LONGEST_DELAY_MS);
  }
}
