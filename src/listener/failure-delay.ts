import { countedAddress } from './connection-slots.ts';
import {
  AUTH_FAILURE_FIRST_DELAY_MS,
  AUTH_FAILURE_MAX_ADDRESSES,
  AUTH_FAILURE_MAX_DELAY_MS,
  AUTH_FAILURE_RESET_MS,
} from './limits.ts';

interface Failures {
  readonly count: number;
  readonly lastMs: number;
}

/**
 * Computes the delay before the response to a wrong token. It doubles with each failure of an address, up to a maximum, and resets
 * after a time without failures. Valid tokens are never delayed, so an attacker cannot lock out others behind the same address.
 */
export class FailureDelay {
  /** By address, the least recent failure first. */
  readonly #failures = new Map<string, Failures>();
  readonly #now: () => number;

  constructor(now: () => number = () => process.uptime() * 1_000) {
    this.#now = now;
  }

  /** Counts a failure. @returns the delay in milliseconds. All local clients count as one address. */
  failed(address: string | null): number {
    const key = countedAddress({ remoteAddress: address ?? undefined }) ?? 'this machine';
    const nowMs = this.#now();
    const before = this.#failures.get(key);
    const count =
      before === undefined || nowMs - before.lastMs > AUTH_FAILURE_RESET_MS ? 1 : before.count + 1;
    this.#failures.delete(key);
    this.#failures.set(key, { count, lastMs: nowMs });
    const [oldest] = this.#failures.keys();
    if (this.#failures.size > AUTH_FAILURE_MAX_ADDRESSES && oldest !== undefined)
      this.#failures.delete(oldest);
    return Math.min(AUTH_FAILURE_FIRST_DELAY_MS * 2 ** (count - 1), AUTH_FAILURE_MAX_DELAY_MS);
  }
}
