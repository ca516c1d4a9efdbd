import { MAX_REQUEST_COUNTS, REQUEST_PERIOD_MS, REQUESTS_PER_PERIOD } from '../limits.ts';

/** Counts the requests of each kind and environment within a period. */
export class RequestBudget {
  readonly #now: () => number;
  /** The one whose period began first is first. */
  readonly #spent = new Map<string, { readonly sinceMs: number; count: number }>();

  /** `now` is a clock that does not jump. */
  constructor(now: () => number) {
    this.#now = now;
  }

  /** Whether another request that counts under this name may be answered now. */
  spend(name: string): boolean {
    const nowMs = this.#now();
    const spent = this.#spent.get(name);
    if (spent !== undefined && nowMs - spent.sinceMs < REQUEST_PERIOD_MS) {
      spent.count++;
      return spent.count <= REQUESTS_PER_PERIOD;
    }
    this.#spent.delete(name);
    this.#spent.set(name, { sinceMs: nowMs, count: 1 });
    const [oldest] = this.#spent.keys();
    if (this.#spent.size > MAX_REQUEST_COUNTS && oldest !== undefined) this.#spent.delete(oldest);
    return true;
  }
}
