import { unlessAborted } from '../../base/abort.ts';
import { TimeLimit } from '../../base/time-limit.ts';
import type { CallOptions } from '../backend.ts';
import { ClientError, type ClientErrorKind } from '../errors.ts';
import { checkDuration, checkSignal } from './option-checks.ts';

/** Combines a caller's signal and timeout into one signal whose reason is a ClientError. */
export class CallLimit {
  /** Undefined when the operation has no limit. */
  readonly signal: AbortSignal | undefined;
  readonly #limit: TimeLimit | null = null;

  /** `timeUp` sets the kind and hint of the timeout error. With `unref` the timer does not keep Node running. Throws ClientError for a timeout that is not a number from 0. */
  constructor(
    what: string,
    options: CallOptions,
    timeUp: { readonly kind: ClientErrorKind; readonly hint?: string; readonly unref?: boolean } = {
      kind: 'timeout',
    },
  ) {
    const { signal, timeoutMs } = options;
    if (signal === undefined && timeoutMs === undefined) return;
    checkSignal(signal);
    checkDuration('timeoutMs', timeoutMs);
    this.#limit = new TimeLimit(timeoutMs ?? null, signal === undefined ? [] : [signal], {
      unref: timeUp.unref ?? false,
      aborted: (cause) => new ClientError('aborted', `${what} was aborted`, { cause }),
      timeUp: () => {
        const { kind, hint = timeoutMs === 0 ? NO_TIME : undefined } = timeUp;
        return new ClientError(kind, `${what} took longer than ${timeoutMs} ms`, { hint, retryable: true });
      },
    });
    this.signal = this.#limit.signal;
  }

  /** Removes the listener from the caller's signal and clears the timer. */
  end(): void {
    this.#limit?.end();
  }

  /** Waits for the work until the limit is reached. Does not stop the work itself. */
  race<T>(work: Promise<T>): Promise<T> {
    const { signal } = this;
    return signal === undefined ? work : unlessAborted(work, signal);
  }
}

const NO_TIME = 'with `timeoutMs: 0` nothing is sent; leave it out for no limit';

/** The deadline of an operation with several stages, each of which takes its own options. */
export class Deadline {
  readonly #options: CallOptions;
  readonly #startedAt = performance.now();

  constructor(options: CallOptions = {}) {
    checkSignal(options.signal);
    checkDuration('timeoutMs', options.timeoutMs);
    this.#options = options;
  }

  /**
   * Options for the next stage. It gets at least 1 ms, even when no time is left, so that it reports the timeout
   * itself. With `timeoutMs: 0` it gets none.
   */
  get remaining(): CallOptions {
    const { signal, timeoutMs } = this.#options;
    return {
      ...(signal && { signal }),
      ...(timeoutMs !== undefined && {
        timeoutMs: Math.max(
          Math.min(1, timeoutMs),
          Math.ceil(timeoutMs - (performance.now() - this.#startedAt)),
        ),
      }),
    };
  }

  /** Throws when the caller's signal is aborted. */
  check(what: string): void {
    const { signal } = this.#options;
    if (signal?.aborted) {
      throw new ClientError('aborted', `${what} was aborted`, { cause: signal.reason });
    }
  }

  /**
   * Waits for `work` until the signal aborts or the time is up. Does not stop the work itself: others may wait for
   * it.
   */
  async wait<T>(what: string, work: Promise<T>): Promise<T> {
    const limit = new CallLimit(what, this.remaining);
    try {
      return await limit.race(work);
    } finally {
      limit.end();
    }
  }
}
