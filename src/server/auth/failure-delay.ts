import { isIPv6 } from 'node:net';
import {
  AUTH_FAILURE_FIRST_DELAY_MS,
  AUTH_FAILURE_FORGOTTEN_MS,
  AUTH_FAILURE_LONGEST_DELAY_MS,
  AUTH_FAILURES_REMEMBERED,
} from '../limits.ts';

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

  /** Notes a failure; returns the milliseconds to wait. */
  failed(address: string | null): number {
    const key = networkOf(address ?? '');
    const nowMs = this.#now();
    const before = this.#failures.get(key);
    const count = before === undefined || nowMs - before.lastMs > AUTH_FAILURE_FORGOTTEN_MS ? 1 : before.count + 1;
    this.#failures.delete(key);
    this.#failures.set(key, { count, lastMs: nowMs });
    const [oldest] = this.#failures.keys();
    if (this.#failures.size > AUTH_FAILURES_REMEMBERED && oldest !== undefined) this.#failures.delete(oldest);
    return Math.min(AUTH_FAILURE_FIRST_DELAY_MS * 2 ** (count - 1), AUTH_FAILURE_LONGEST_DELAY_MS);
  }
}

/** The address, or of an IPv6 one the /64: that much is given to a single customer. */
function networkOf(address: string): string {
  const v4 = /^::ffff:([\d.]+)$/i.exec(address)?.[1];
  if (v4 !== undefined || !isIPv6(address)) return v4 ?? address;
  const [before = '', after] = address.split('%', 1)[0]!.split('::');
  const head = before.split(':').filter((group) => group !== '');
  const tail = after === undefined ? [] : after.split(':').filter((group) => group !== '');
  const zeros = after === undefined ? 0 : Math.max(0, 8 - head.length - tail.length);
  return [...head, ...Array<string>(zeros).fill('0'), ...tail].slice(0, 4).join(':');
}
