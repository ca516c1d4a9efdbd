import type { CallOptions } from './backend.ts';
import { CallLimit } from './call-limit.ts';
import { ClientError } from './errors.ts';

/** The one deadline of an operation that has several stages, each of which takes options of its own. */
export class Deadline {
  readonly #options: CallOptions;
  readonly #startedAt = performance.now();

  constructor(options: CallOptions = {}) {
    this.#options = options;
  }

  /** Options for the stage that comes now. It gets a moment even if there is no time left: it knows best how to say so. */
  get remaining(): CallOptions {
    const { signal, timeoutMs } = this.#options;
    return {
      ...(signal && { signal }),
      ...(timeoutMs !== undefined && {
        timeoutMs: Math.max(1, Math.ceil(timeoutMs - (performance.now() - this.#startedAt))),
      }),
    };
  }

  /** Throws when the caller has given up already. */
  check(what: string): void {
    const { signal } = this.#options;
    if (signal?.aborted) {
      throw new ClientError('aborted', `${what} was aborted`, { cause: signal.reason });
    }
  }

  /** Waits for `work` until the caller gives up or the time is over. The work itself goes on: others may wait for it. */
  async wait<T>(what: string, work: Promise<T>): Promise<T> {
    const limit = new CallLimit(what, this.remaining);
    try {
      return await limit.race(work);
    } finally {
      limit.end();
    }
  }
}
