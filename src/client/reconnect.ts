import { ClientError } from './errors.ts';
import { RECONNECT_FIRST_DELAY_MS, RECONNECT_MAX_DELAY_MS } from './limits.ts';

/** Grows the pause before each further attempt. Half of it is left to chance, so that many clients do not come back all at once. */
export class Backoff {
  readonly #random: () => number;
  #nextMs = RECONNECT_FIRST_DELAY_MS;

  constructor(random: () => number = Math.random) {
    this.#random = random;
  }

  next(): number {
    const ms = this.#nextMs;
    this.#nextMs = Math.min(ms * 2, RECONNECT_MAX_DELAY_MS);
    return ms * (0.5 + this.#random() / 2);
  }

  reset(): void {
    this.#nextMs = RECONNECT_FIRST_DELAY_MS;
  }
}

/**
 * Attempts until one succeeds, a failure is final, or the signal aborts: then with the last failure, which says more than the end
 * of the time. `pauseMs` is waited first.
 */
export async function attemptUntil<T>(
  attempt: (signal: AbortSignal) => Promise<T>,
  backoff: Backoff,
  pauseMs: number,
  signal: AbortSignal,
): Promise<T> {
  let last: unknown;
  for (let delayMs = pauseMs; ; delayMs = backoff.next()) {
    await pause(delayMs, signal);
    if (signal.aborted) throw last ?? signal.reason;
    try {
      return await attempt(signal);
    } catch (error) {
      if (signal.aborted) throw last ?? signal.reason;
      if (!(error instanceof ClientError) || !error.retryable) throw error;
      last = error;
    }
  }
}

/** Resolves after the time, or at once when the signal aborts. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const finish = () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', finish);
      resolve();
    };
    const timer = setTimeout(finish, ms);
    if (signal.aborted) finish();
    else signal.addEventListener('abort', finish);
  });
}
