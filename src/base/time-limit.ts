import { onAbort } from './abort.ts';

/** Options of a {@link TimeLimit}. */
interface TimeLimitOptions {
  /** The reason when the time is up. By default a TimeoutError, as of `AbortSignal.timeout`. */
  readonly timeUp?: () => unknown;
  /** Whether the timer lets Node exit. */
  readonly unref?: boolean;
  /** The reason when another signal aborts first. By default the reason of that signal. */
  readonly aborted?: (reason: unknown) => unknown;
}

/**
 * A signal that aborts when the time is up or as soon as another signal aborts. Its owner calls `end` when the work is done.
 *
 * A timer holds the signal. Node holds the sources of `AbortSignal.any` only weakly: it may collect them as garbage, and then the time
 * is never up (https://github.com/nodejs/node/issues/57736, https://github.com/nodejs/node/issues/65995).
 */
export class TimeLimit {
  readonly signal: AbortSignal;
  readonly #stops: (() => void)[] = [];

  /** No timeout when `ms` is null or longer than a timer can run. */
  constructor(
    ms: number | null,
    signals: readonly AbortSignal[] = [],
    { timeUp = timeoutError, aborted = (reason) => reason, unref = false }: TimeLimitOptions = {},
  ) {
    const controller = new AbortController();
    this.signal = controller.signal;
    for (const signal of signals) {
      const abort = () => controller.abort(aborted(signal.reason));
      if (signal.aborted) abort();
      else this.#stops.push(onAbort(signal, abort));
    }
    if (ms === null || ms > MAX_TIMER_MS) return;
    const expire = () => controller.abort(timeUp());
    if (ms <= 0) {
      expire();
      return;
    }
    const timer = setTimeout(expire, ms);
    // In a browser a timer is a number.
    if (unref) timer.unref?.();
    this.#stops.push(() => clearTimeout(timer));
  }

  /** Clears the timer and stops listening to the other signals. */
  end(): void {
    for (const stop of this.#stops.splice(0)) stop();
  }

  /** Runs the work with a signal that aborts when the time is up, or with `signal`. The work must heed it. */
  static async run<T>(
    ms: number,
    signal: AbortSignal | null,
    work: (limited: AbortSignal) => Promise<T>,
  ): Promise<T> {
    const limit = new TimeLimit(ms, signal === null ? [] : [signal]);
    try {
      return await work(limit.signal);
    } finally {
      limit.end();
    }
  }
}

/** Longest delay of a timer, 24 days: Node fires longer ones immediately. */
const MAX_TIMER_MS = 2 ** 31 - 1;

function timeoutError(): unknown {
  return new DOMException('The operation timed out', 'TimeoutError');
}
