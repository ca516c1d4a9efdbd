import { AsyncLocalStorage } from 'node:async_hooks';
import { ProtocolError, ProtocolErrorCode } from '@modelcontextprotocol/server';
import { ByteBudget } from '../base/byte-budget.ts';
import { Semaphore } from '../base/semaphore.ts';
import { MAX_LARGE_RESULTS, MAX_RESULT_BYTES_IN_ALL, MAX_WAITING_RESULTS } from './limits.ts';

/** The results of one HTTP request. */
interface Exchange {
  readonly budget: ByteBudget;
  readonly slots: Semaphore;
  /** Bytes of results that are not sent yet. */
  bytes: number;
  isClosed: boolean;
}

const EXCHANGE = new AsyncLocalStorage<Exchange>();

/** Limits how much memory the results of all HTTP requests take together. A client that does not read its results keeps them here. */
export class ResultBudget {
  readonly #budget = new ByteBudget(MAX_RESULT_BYTES_IN_ALL);
  readonly #slots = new Semaphore(MAX_LARGE_RESULTS, {
    maxWaiting: MAX_WAITING_RESULTS,
    tooManyWaiting: tooMuch,
  });

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
 * Makes a result that may be large. Throws ProtocolError, and does nothing, when the results of HTTP requests already take too much memory.
 * Clients on stdio have no limit.
 */
export async function withinBudget<T>(
  signal: AbortSignal,
  make: () => Promise<T>,
  sizeOf: (result: T) => number,
): Promise<T> {
  const exchange = EXCHANGE.getStore();
  if (exchange === undefined) return make();
  const { budget, slots } = exchange;
  await slots.acquire(signal);
  try {
    if (budget.exceeded) throw tooMuch();
    const result = await make();
    if (exchange.isClosed) return result;
    const bytes = sizeOf(result);
    exchange.bytes += bytes;
    budget.add(bytes);
    return result;
  } finally {
    slots.release();
  }
}

function tooMuch(): ProtocolError {
  return new ProtocolError(ProtocolErrorCode.InternalError, TOO_MUCH);
}

const TOO_MUCH =
  'The server has too many large results that clients have not read yet. Read them, then try again.';
