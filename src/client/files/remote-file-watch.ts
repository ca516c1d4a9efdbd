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

/** What a watch needs of a client. */
export interface WatchCaller {
  readonly state: 'connected' | 'recovering' | 'failed' | 'closed';
  call<M extends Method>(method: M, params: CallParamsOf<M>, options?: CallOptions): Promise<ResultOf<M>>;
  /** Returns what ends it. */
  onNotification<N extends Notification>(
    method: N,
    listener: (params: NotificationParamsOf<N>) => void,
  ): () => void;
  /** Called after every change of {@link state}. Returns what ends it. */
  onStateChange(listener: () => void): () => void;
}

/**
 * Watches files of a server. A watch ends with its connection, so it is set up anew after each recovery; what happened in between
 * is told as overflow.
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
    // Where the connection is gone the watch is gone too. Nobody waits for the answer, which a server that hangs would not give.
    if (caller.state === 'connected') caller.call('fs/unwatch', { watchId }).catch(() => undefined);
  });
  const stopListening = caller.onNotification('fs/changed', (changed) => {
    if (changed?.watchId !== watchId) return;
    // Notifications come as they were sent; one that makes no sense tells only that something changed.
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
      // After a further loss there is a further recovery, or the end.
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
    // One that was not sent before the loss would be sent behind the next, which the server would refuse: it has the same id.
    renewal.abort();
    if (caller.state === 'connected') void watchAgain();
    else failIfOver();
  });
  // The connection may have ended right behind the answer.
  failIfOver();
  return queue;
}

function ended(state: 'failed' | 'closed'): ClientError {
  return state === 'closed'
    ? new ClientError('closed', 'the watch has ended: the client is closed')
    : new ClientError('brokenPipe', 'the watch has ended: the connection is gone');
}
