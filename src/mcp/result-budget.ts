import { AsyncLocalStorage } from 'node:async_hooks';
import { ByteBudget } from '../base/byte-budget.ts';
import { Semaphore } from '../base/semaphore.ts';
import {
  MAX_HTTP_CALLS,
  MAX_LARGE_RESULTS,
  MAX_RESULT_BYTES_IN_ALL,
  MAX_WAITING_HTTP_CALLS,
  MAX_WAITING_RESULTS,
} from './limits.ts';

/** What a result is of. A resource can be much larger than the result of a tool. */
type ResultKind = 'tool' | 'resource';

/** The results of one HTTP request. */
interface Exchange {
  readonly budget: ByteBudget;
  readonly slots: Readonly<Record<ResultKind, Semaphore>>;
  /** Bytes of results that are not sent yet. */
  bytes: number;
  isClosed: boolean;
}

const EXCHANGE = new AsyncLocalStorage<Exchange>();

/** The HTTP clients of the server have too many results or calls. The message is for a model. */
export class TooManyResultsError extends Error {
  override readonly name = 'TooManyResultsError';
}

/** Limits how much memory the results of all HTTP requests take together. A client that does not read its results keeps them here. */
export class ResultBudget {
  readonly #budget = new ByteBudget(MAX_RESULT_BYTES_IN_ALL);
  readonly #slots = {
    tool: new Semaphore(MAX_HTTP_CALLS, {
      maxWaiting: MAX_WAITING_HTTP_CALLS,
      tooManyWaiting: () => new TooManyResultsError(TOO_MANY_CALLS),
    }),
    resource: new Semaphore(MAX_LARGE_RESULTS, {
      maxWaiting: MAX_WAITING_RESULTS,
      tooManyWaiting: () => new TooManyResultsError(TOO_MUCH),
    }),
  };

  /** Handles a request. Its results count until `closed` resolves: the client has them all, or is gone. */
  run<T>(closed: Promise<void>, handle: () => T): T {
    const exchange: Exchange = { budget: this.#budget, slots: this.#slots, bytes: 0, isClosed: false };
    void closed.then(() => {
      exchange.isClosed = true;
      this.#budget.remove(exchange.bytes);
    });
    return EXCHANGE.run(exchange, handle);
  }
}

/**
 * Makes a result. Throws TooManyResultsError, and does nothing, when the results of HTTP requests already take too much memory, or too
 * many are being made. Clients on stdio have no limit.
 */
export async function withinBudget<T>(
  kind: ResultKind,
  signal: AbortSignal,
  make: () => Promise<T>,
): Promise<T> {
  const exchange = EXCHANGE.getStore();
  if (exchange === undefined) return make();
  const { budget } = exchange;
  const slots = exchange.slots[kind];
  await slots.acquire(signal);
  try {
    if (budget.exceeded) throw new TooManyResultsError(TOO_MUCH);
    const result = await make();
    if (exchange.isClosed) return result;
    const bytes = JSON.stringify(result)?.length ?? 0;
    exchange.bytes += bytes;
    budget.add(bytes);
    return result;
  } finally {
    slots.release();
  }
}

const TOO_MUCH =
  'The server has too many results that clients have not read yet. Nothing was done. Read them, then try again.';

const TOO_MANY_CALLS =
  'The server has too many calls of HTTP clients. Nothing was done. Wait for some of them, then call again.';
