import { randomHex } from '../../base/random-hex.ts';
import type {
  CallParamsOf,
  Method,
  Notification,
  NotificationParamsOf,
  ResultOf,
} from '../../protocol/registry.ts';
import type { CallOptions, FileChange, FileChanges, FileWatch } from '../backend.ts';
import { asFileError } from '../connection/call-errors.ts';
import { ClientError } from '../errors.ts';
import { WATCH_QUEUE_CHANGES } from '../limits.ts';

/** The part of a client that a watch needs. */
export interface WatchClient {
  readonly state: 'connected' | 'recovering' | 'failed' | 'closed';
  call<M extends Method>(method: M, params: CallParamsOf<M>, options?: CallOptions): Promise<ResultOf<M>>;
  /** Returns a function that removes the listener. */
  onNotification<N extends Notification>(
    method: N,
    listener: (params: NotificationParamsOf<N>) => void,
  ): () => void;
  /** Calls the listener after every change of {@link state}. Returns a function that removes the listener. */
  onStateChange(listener: () => void): () => void;
}

/**
 * Watches files on a server. A watch ends with its connection, so it is renewed after each recovery. The consumer
 * gets an overflow for the time in between.
 */
export async function watchRemotely(
  client: WatchClient,
  params: Omit<CallParamsOf<'fs/watch'>, 'watchId'>,
  options: CallOptions,
): Promise<FileWatch> {
  const watchId = randomHex();
  let renewal = new AbortController();
  const queue = new WatchQueue(async () => {
    stopListening();
    stopFollowing();
    renewal.abort();
    // Without a connection the watch is already gone. The answer is not awaited, because a server that hangs would
    // not send it.
    if (client.state === 'connected') client.call('fs/unwatch', { watchId }).catch(() => undefined);
  });
  const stopListening = client.onNotification('fs/changed', (changed) => {
    if (changed?.watchId !== watchId) return;
    // Notifications are not validated. A malformed one only shows that something changed.
    queue.push(Array.isArray(changed.changes) ? changed : { changes: [], overflow: true });
  });
  const watchAgain = async () => {
    renewal = new AbortController();
    const { signal } = renewal;
    try {
      await client.call('fs/watch', { ...params, watchId }, { signal });
      queue.push({ changes: [], overflow: true });
    } catch (error) {
      const failure = asFileError(error);
      // Another lost connection leads to another recovery, or to the end of the client.
      const isOver = failure instanceof ClientError && failure.kind !== 'brokenPipe';
      if (isOver && !signal.aborted) queue.fail(failure);
    }
  };
  let stopFollowing = () => {};
  try {
    await client.call('fs/watch', { ...params, watchId }, options);
  } catch (error) {
    void queue.close();
    throw asFileError(error);
  }
  const failIfOver = () => {
    if (client.state === 'failed' || client.state === 'closed') queue.fail(ended(client.state));
  };
  stopFollowing = client.onStateChange(() => {
    // A renewal that was not sent before the loss would be sent after the next one, and the server would refuse the
    // duplicate id.
    renewal.abort();
    if (client.state === 'connected') void watchAgain();
    else failIfOver();
  });
  // The connection may have ended right after the answer.
  failIfOver();
  return queue;
}

function ended(state: 'failed' | 'closed'): ClientError {
  return state === 'closed'
    ? new ClientError('closed', 'the watch has ended: the client is closed')
    : new ClientError('brokenPipe', 'the watch has ended: the connection is gone');
}

/**
 * A watch that queues its changes for the consumer. When the queue is full, its changes are dropped and reported as
 * overflow.
 */
class WatchQueue implements FileWatch {
  readonly #stop: () => Promise<void>;
  #changes: FileChange[] = [];
  #overflow = false;
  #ended = false;
  #failure: ClientError | null = null;
  #closing: Promise<void> | null = null;
  #wake: () => void = () => {};

  /** @param stop Ends the source; called once, by the first {@link close} or {@link fail}. */
  constructor(stop: () => Promise<void>) {
    this.#stop = stop;
  }

  push({ changes, overflow }: FileChanges): void {
    if (this.#ended) return;
    this.#overflow ||= overflow;
    if (this.#changes.length + changes.length > WATCH_QUEUE_CHANGES) {
      this.#changes = [];
      this.#overflow = true;
    } else {
      this.#changes.push(...changes);
    }
    this.#wake();
  }

  /** Ends the watch with an error. The consumer first gets the queued changes. Stops the source immediately. */
  fail(error: ClientError): void {
    if (this.#ended) return;
    this.#failure = error;
    this.#ended = true;
    this.#wake();
    this.#closing = this.#stop();
  }

  /** Ends the iteration immediately and stops the source. */
  close(): Promise<void> {
    this.#ended = true;
    this.#failure = null;
    this.#changes = [];
    this.#overflow = false;
    this.#wake();
    this.#closing ??= this.#stop();
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<FileChanges, void> {
    try {
      for (;;) {
        while (!this.#ended && !this.#hasChanges) {
          await new Promise<void>((resolve) => {
            this.#wake = resolve;
          });
        }
        if (this.#hasChanges) yield this.#take();
        else if (this.#failure !== null) throw this.#failure;
        else return;
      }
    } finally {
      await this.close();
    }
  }

  get #hasChanges(): boolean {
    return this.#changes.length > 0 || this.#overflow;
  }

  #take(): FileChanges {
    const taken = { changes: this.#changes, overflow: this.#overflow };
    this.#changes = [];
    this.#overflow = false;
    return taken;
  }
}
