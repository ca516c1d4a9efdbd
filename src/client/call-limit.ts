import { onAbort, unlessAborted } from '../base/abort.ts';
import type { CallOptions } from './backend.ts';
import { ClientError, type ClientErrorKind } from './errors.ts';
import { MAX_TIMER_MS } from './limits.ts';

/** The end that a caller sets to an operation: its signal and its deadline as one signal, whose reason is a ClientError. */
export class CallLimit {
  /** Undefined when nothing limits the operation. */
  readonly signal: AbortSignal | undefined;
  #end: () => void = () => {};

  /** `timeUp` is what the error is when the time is up. */
  constructor(
    what: string,
    options: CallOptions,
    timeUp: { readonly kind: ClientErrorKind; readonly hint?: string } = { kind: 'timeout' },
  ) {
    const { signal, timeoutMs } = options;
    if (signal === undefined && timeoutMs === undefined) return;
    const controller = new AbortController();
    this.signal = controller.signal;
    const abort = () =>
      controller.abort(new ClientError('aborted', `${what} was aborted`, { cause: signal?.reason }));
    const stop = () => {
      const { kind, hint } = timeUp;
      controller.abort(
        new ClientError(kind, `${what} took longer than ${timeoutMs} ms`, { hint, retryable: true }),
      );
    };
    const endless = timeoutMs === undefined || timeoutMs > MAX_TIMER_MS;
    const timer = endless ? undefined : setTimeout(stop, timeoutMs);
    const unsubscribe = signal === undefined || signal.aborted ? undefined : onAbort(signal, abort);
    this.#end = () => {
      clearTimeout(timer);
      unsubscribe?.();
    };
    if (signal?.aborted) abort();
  }

  /** Lets go of the caller's signal and of the timer. */
  end(): void {
    this.#end();
  }

  /** Waits for the work no longer than the limit. The work itself goes on. */
  race<T>(work: Promise<T>): Promise<T> {
    const { signal } = this;
    return signal === undefined ? work : unlessAborted(work, signal);
  }
}
