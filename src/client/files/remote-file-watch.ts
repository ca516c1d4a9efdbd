import type {
  CallParamsOf,
  Method,
  Notification,
  NotificationParamsOf,
  ResultOf,
} from '../../protocol/registry.ts';
import type { CallOptions, FileWatch } from '../backend.ts';
import { ClientError } from '../errors.ts';
import { randomHex } from '../random-hex.ts';
import { asFileError } from './file-errors.ts';
import { WatchQueue } from './watch-queue.ts';

/** The part of a client that a watch needs. */
export interface WatchCaller {
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
  caller: WatchCaller,
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
    if (caller.state === 'connected') caller.call('fs/unwatch', { watchId }).catch(() => undefined);
  });
  const stopListening = caller.onNotification('fs/changed', (changed) => {
    if (changed?.watchId !== watchId) return;
    // Notifications are not validated. A malformed one only shows that something changed.
    queue.push(Array.isArray(changed.changes) ? changed : { changes: [], overflow: true });
  });
  const watchAgain = async () => {
    renewal = new AbortController();
    const { signal } = renewal;
    try {
      await caller.call('fs/watch', { ...params, watchId }, { signal });
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
    await caller.call('fs/watch', { ...params, watchId }, options);
  } catch (error) {
    void queue.close();
    throw asFileError(error);
  }
  const failIfOver = () => {
    if (caller.state === 'failed' || caller.state === 'closed') queue.fail(ended(caller.state));
  };
  stopFollowing = caller.onStateChange(() => {
    // A renewal that was not sent before the loss would be sent after the next one, and the server would refuse the
    // duplicate id.
    renewal.abort();
    if (caller.state === 'connected') void watchAgain();
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
