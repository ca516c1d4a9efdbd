import { sleep } from '../../base/abort.ts';
import { Backoff, shorteningJitter } from '../../base/backoff.ts';
import type { ExecServerClient } from '../../client/client.ts';
import { ClientError, messageWithoutHint } from '../../client/errors.ts';
import { ChangeQueue } from './change-queue.ts';
import { RECONNECT_FIRST_MS, RECONNECT_MAX_MS } from './limits.ts';
import type { PassReason, Report } from './report.ts';
import { isConnectionLoss } from './scan.ts';
import { type Sides, Sync, type SyncOptions } from './sync.ts';

/** A connection and the sides that use it. */
export interface Session {
  readonly client: ExecServerClient;
  readonly sides: Sides;
  close(): Promise<void>;
}

interface WatchContext {
  /** Connects. */
  open(): Promise<Session>;
  readonly options: SyncOptions;
  readonly report: Report;
  readonly signal: AbortSignal;
}

/**
 * Synchronizes, and then again whenever the source changes, until the signal aborts. After a lost connection it connects again and
 * compares everything. The first comparison must succeed.
 */
export async function syncAndWatch(context: WatchContext): Promise<void> {
  const { signal, report } = context;
  const backoff = new Backoff(RECONNECT_FIRST_MS, RECONNECT_MAX_MS, shorteningJitter);
  // Neither an idle connection nor a local watch keeps Node running.
  const running = setInterval(() => {}, 2 ** 30);
  let session: Session | null = null;
  let hasWorked = false;
  let lastProblem = '';
  try {
    while (!signal.aborted) {
      try {
        session = await context.open();
        await follow(session, context, hasWorked ? 'resync' : 'start', () => {
          hasWorked = true;
          backoff.reset();
          lastProblem = '';
        });
      } catch (error) {
        if (signal.aborted) break;
        if (!hasWorked) throw error;
        // What the library advises is for programs that use it.
        const message = error instanceof ClientError ? messageWithoutHint(error) : (error as Error).message;
        if (message !== lastProblem) report.notice(`${message}; trying again`);
        lastProblem = message;
        await session?.close();
        session = null;
        await sleep(backoff.next(), signal);
      }
    }
  } finally {
    clearInterval(running);
    await session?.close();
  }
}

async function follow(
  { client, sides }: Session,
  { options, report, signal }: WatchContext,
  reason: PassReason,
  onWorking: () => void,
): Promise<void> {
  const sync = new Sync(sides, options, report);
  const queue = new ChangeQueue();
  const stopFollowing = client.onStateChange((state, failure) => {
    if (state === 'recovering') report.notice('the connection is lost; reconnecting');
    // The server may have restarted and lost what was written last.
    else if (state === 'connected') queue.overflow();
    else queue.fail(failure);
  });
  let stopWatching = () => {};
  try {
    // The watch begins before the comparison, so that no change in between is missed.
    stopWatching = await sides.source.watch(await sync.ignoredDirectories(), queue);
    await sync.all(reason);
    onWorking();
    for await (const changes of queue.until(signal)) await pass(() => sync.changed(changes), report, signal);
  } finally {
    stopFollowing();
    stopWatching();
  }
}

/** A pass that fails because of the files does not end the watch. The next change leads to another one. */
async function pass(run: () => Promise<void>, report: Report, signal: AbortSignal): Promise<void> {
  try {
    await run();
  } catch (error) {
    if (signal.aborted || isConnectionLoss(error)) throw error;
    report.notice((error as Error).message);
  }
}
