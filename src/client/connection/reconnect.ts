import { sleep } from '../../base/abort.ts';
import { Backoff, shorteningJitter } from '../../base/backoff.ts';
import { ClientError } from '../errors.ts';
import { RECONNECT_FIRST_DELAY_MS, RECONNECT_MAX_DELAY_MS } from '../limits.ts';

/** Delays between attempts to reconnect. */
export function reconnectBackoff(jitter: () => number = shorteningJitter): Backoff {
  return new Backoff(RECONNECT_FIRST_DELAY_MS, RECONNECT_MAX_DELAY_MS, jitter);
}

/**
 * Retries until an attempt succeeds, an error is final, or the signal aborts. After an abort it rejects with the
 * last error, which explains more than a timeout. Waits `pauseMs` before the first attempt.
 * The pauses do not keep Node running.
 */
export async function attemptUntil<T>(
  attempt: (signal: AbortSignal) => Promise<T>,
  backoff: Backoff,
  pauseMs: number,
  signal: AbortSignal,
): Promise<T> {
  let last: unknown;
  for (let delayMs = pauseMs; ; delayMs = backoff.next()) {
    await sleep(delayMs, signal, { unref: true });
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
