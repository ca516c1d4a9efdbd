import type { CallOptions } from '../backend.ts';
import { bytesParam } from '../connection/bytes.ts';
import { asClientError, lostCall, lostRetry } from '../connection/call-errors.ts';
import { CallLimit } from '../connection/call-limit.ts';
import { CallRetries } from '../connection/call-rules.ts';
import { type Link, LinkEndedError } from '../connection/link.ts';
import { readStatus } from '../connection/server-messages.ts';
import { ClientError, withCallerStack } from '../errors.ts';
import { MAX_UNANSWERED_WRITES } from '../limits.ts';

interface Input {
  readonly method: 'process/write' | 'process/closeStdin';
  readonly params: Readonly<Record<string, string>>;
  readonly signal: AbortSignal | undefined;
  /** The link it was sent on last; null when that link has ended. */
  link: Link | null;
  /** Whether it was sent on an earlier link. */
  repeated: boolean;
  readonly retries: CallRetries;
  resolve(status: string): void;
  reject(error: unknown): void;
}

/**
 * The queue of writes to the stdin of one process. It keeps the order of the calls across connections: after a
 * recovery, unanswered writes are sent again before newer ones. Each write has an id, so the server applies it
 * once.
 */
export class StdinQueue {
  readonly #processId: string;
  readonly #usableLink: () => Promise<Link>;
  readonly #idPrefix: string;
  readonly #inputs: Input[] = [];
  #writes = 0;
  #sending = false;

  /** The prefix distinguishes the ids of this queue from those of other clients of the process. */
  constructor(processId: string, usableLink: () => Promise<Link>, idPrefix = '') {
    this.#processId = processId;
    this.#usableLink = usableLink;
    this.#idPrefix = idPrefix;
  }

  /** Returns the status that the server answered with. */
  async write(bytes: Uint8Array, options: CallOptions): Promise<string> {
    const params = {
      chunk: bytesParam(bytes, { takesBytes: true }),
      writeId: `${this.#idPrefix}${++this.#writes}`,
    };
    const { status } = await this.#add('process/write', params, options);
    return status;
  }

  /** Returns false when stdin was already closed. */
  async close(options: CallOptions): Promise<boolean> {
    const { status, repeated } = await this.#add('process/closeStdin', {}, options);
    // Stdin that a retry finds closed was closed by the attempt whose answer was lost.
    return status === 'closed' || (status === 'alreadyClosed' && repeated);
  }

  async #add(method: Input['method'], params: Readonly<Record<string, string>>, options: CallOptions) {
    if (this.#inputs.length >= MAX_UNANSWERED_WRITES) {
      throw new ClientError('overloaded', `${MAX_UNANSWERED_WRITES} writes to the process are unanswered`, {
        hint: 'wait for earlier writes: the server answers them as fast as the program reads',
        retryable: true,
      });
    }
    const limit = new CallLimit(method, options);
    const input: Input = {
      method,
      params: { processId: this.#processId, ...params },
      signal: limit.signal,
      link: null,
      repeated: false,
      retries: new CallRetries(),
      resolve: () => {},
      reject: () => {},
    };
    const answer = new Promise<string>((resolve, reject) => Object.assign(input, { resolve, reject }));
    this.#inputs.push(input);
    void this.#send();
    try {
      return { status: await limit.race(answer), repeated: input.repeated };
    } catch (error) {
      throw withCallerStack(error);
    } finally {
      limit.end();
      this.#inputs.splice(this.#inputs.indexOf(input), 1);
    }
  }

  async #send(): Promise<void> {
    if (this.#sending) return;
    this.#sending = true;
    try {
      while (this.#inputs.some((input) => input.link === null)) {
        const link = await this.#usableLink();
        for (const input of [...this.#inputs]) if (input.link !== link) void this.#sendOne(input, link);
      }
    } catch (error) {
      for (const input of this.#inputs) if (input.link === null) input.reject(error);
    } finally {
      this.#sending = false;
    }
  }

  async #sendOne(input: Input, link: Link): Promise<void> {
    input.link = link;
    const sentAt = performance.now();
    try {
      const result = await link.call(input.method, input.params, { signal: input.signal });
      input.resolve(readStatus(result, input.method));
    } catch (error) {
      if (input.link !== link) return;
      if (!(error instanceof LinkEndedError)) {
        const failure = asClientError(error, input.method);
        input.reject(input.repeated && failure.retryable ? lostRetry(input.method, failure) : failure);
        return;
      }
      input.repeated ||= error.sent;
      if (error.sent && !input.retries.allowAfter(error.end, sentAt)) {
        input.reject(lostCall(input.method, error.end));
      } else {
        input.link = null;
        void this.#send();
      }
    }
  }
}
