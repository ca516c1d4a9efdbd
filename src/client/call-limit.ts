import type { CallOptions } from './backend.ts';
import { ClientError, type ClientErrorKind } from './errors.ts';

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
    const timer = timeoutMs === undefined ? undefined : setTimeout(stop, timeoutMs);
    this.#end = () => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', abort);
    };
    if (signal?.aborted) abort();
    else signal?.addEventListener('abort', abort);
  }

  /** Lets go of the caller's signal and of the timer. */
  end(): void {
    this.#end();
  }

  /** Waits for the work no longer than the limit. The work itself goes on. */
  race<T>(work: Promise<T>): Promise<T> {
    const { signal } = this;
    if (signal === undefined) return work;
    return new Promise((resolve, reject) => {
      const abort = () => reject(signal.reason);
      const finish = (settle: () => void) => {
        signal.removeEventListener('abort', abort);
        settle();
      };
      work.then(
        (value) => finish(() => resolve(value)),
        (error) => finish(() => reject(error)),
      );
      if (signal.aborted) abort();
      else signal.addEventListener('abort', abort);
    });
  }
}
