import { AsyncLocalStorage } from 'node:async_hooks';
import { ByteBudget } from '../base/byte-budget.ts';
import { FairSemaphore } from '../base/fair-semaphore.ts';
import {
  MAX_HTTP_CALLS,
  MAX_LARGE_RESULTS,
  MAX_RESULT_BYTES_IN_ALL,
  MAX_WAITING_HTTP_CALLS,
  MAX_WAITING_RESULTS,
} from './limits.ts';

/** What a result is of. A resource can be much larger than the result of a tool. */
type ResultKind = 'tool' | 'resource';

/** A client while it has requests. */
interface Client {
  requests: number;
}

/** The results of one HTTP request. */
interface Exchange {
  /** The client: each has a fair share of the calls. */
  readonly client: Client;
  readonly budget: ByteBudget;
  readonly slots: Readonly<Record<ResultKind, FairSemaphore>>;
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
  readonly #clients = new Map<string, Client>();
  readonly #slots = {
    tool: new FairSemaphore(MAX_HTTP_CALLS, {
      maxWaiting: MAX_WAITING_HTTP_CALLS,
      tooManyWaiting: () => new TooManyResultsError(TOO_MANY_CALLS),
    }),
    resource: new FairSemaphore(MAX_LARGE_RESULTS, {
      maxWaiting: MAX_WAITING_RESULTS,
      tooManyWaiting: () => new TooManyResultsError(TOO_MUCH),
    }),
  };

  /** Handles a request of a client. Its results count until `closed` resolves: the client has them all, or is gone. */
  run<T>(name: string, closed: Promise<void>, handle: () => T): T {
    const client = this.#clients.get(name) ?? { requests: 0 };
    this.#clients.set(name, client);
    client.requests += 1;
    const exchange: Exchange = {
      client,
      budget: this.#budget,
      slots: this.#slots,
      bytes: 0,
      isClosed: false,
    };
    void closed.then(() => {
      exchange.isClosed = true;
      this.#budget.remove(exchange.bytes);
      client.requests -= 1;
      if (client.requests === 0) this.#clients.delete(name);
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
  const { budget, client } = exchange;
  const slot = await exchange.slots[kind].acquire(client, signal);
  try {
    if (budget.exceeded) throw new TooManyResultsError(TOO_MUCH);
    const result = await make();
    if (exchange.isClosed) return result;
    const bytes = JSON.stringify(result)?.length ?? 0;
    exchange.bytes += bytes;
    budget.add(bytes);
    return result;
  } finally {
    slot.leave(client);
  }
}

const TOO_MUCH =
  'The server has too many results that clients have not read yet. Nothing was done. Read them, then try again.';

const TOO_MANY_CALLS =
  'The server has too many calls of this client, or of all HTTP clients. Nothing was done. Wait for some of them, then call again.';
