import type { ExecServerClient } from '../../client/client.ts';
import { ClientError } from '../../client/errors.ts';
import type { Host } from '../commands.ts';
import { type Connected, type GivenTarget, withClient } from '../environments/with-client.ts';
import { REPORT_LOSS_MS } from './limits.ts';

/** What a command does about its connection. */
interface LineEvents {
  /** The connection is lost, and not only for a moment. */
  lost(): void;
  /** It is back after that. */
  restored(): void;
  /** It could not be restored in time. */
  gaveUp?(failure: ClientError): void;
}

/** Watches the connection of a client. `giveUpAfterMs` null waits without a limit. Returns a function that ends the watch. */
export function watchLine(
  client: Pick<ExecServerClient, 'onStateChange'>,
  events: LineEvents,
  giveUpAfterMs: number | null = null,
): () => void {
  let isReported = false;
  let timers: NodeJS.Timeout[] = [];
  const stopTimers = () => {
    for (const timer of timers) clearTimeout(timer);
    timers = [];
  };
  const remove = client.onStateChange((state, failure) => {
    stopTimers();
    if (state === 'recovering') {
      const report = () => {
        isReported = true;
        events.lost();
      };
      timers.push(setTimeout(report, REPORT_LOSS_MS));
      if (giveUpAfterMs !== null) timers.push(setTimeout(() => events.gaveUp?.(failure!), giveUpAfterMs));
    } else if (state === 'connected' && isReported) {
      isReported = false;
      events.restored();
    }
  });
  return () => {
    remove();
    stopTimers();
  };
}

/** Says that the server is about to end. Returns a function that ends the watch. */
export function watchDraining(
  client: Pick<ExecServerClient, 'onNotification'>,
  note: (text: string) => void,
): () => void {
  return client.onNotification('server/draining', ({ deadlineMs }) => {
    const until = Number.isSafeInteger(deadlineMs)
      ? `, at the latest at ${new Date(deadlineMs!).toISOString()}`
      : '';
    note(`the server is draining: it ends when its programs have ended${until}`);
  });
}

/** The line that a command prints while the connection is lost. `way` says how to leave it: `~. detaches`. */
export function reconnectingText(way: string): string {
  return `reconnecting… (the program should keep running; ${way})`;
}

/**
 * Like {@link withClient}, for a command that only reads. It waits for a lost connection, without a limit if a person sees that, and
 * calls `use` again with another client when the server has forgotten the session of the first. `use` continues where it was.
 */
export async function acrossSessions<Result>(
  given: GivenTarget,
  host: Pick<Host, 'env' | 'isTerminal'>,
  clientName: string,
  events: LineEvents,
  use: (connected: Connected) => Promise<Result>,
): Promise<Result> {
  const options = {
    clientName,
    whileDraining: true,
    ...(host.isTerminal && { recoveryWindowMs: 'none' as const }),
  };
  for (;;) {
    try {
      return await withClient(given, host, options, async (connected) => {
        const stop = watchLine(connected.client, events);
        try {
          return await use(connected);
        } finally {
          stop();
        }
      });
    } catch (error) {
      if (!isSessionGone(error as Error)) throw error;
    }
  }
}

/** Whether a client has lost its server for good, and the server may still have its session. */
export function isServerLost(error: unknown): error is ClientError {
  return error instanceof ClientError && LOST.has(error.kind) && !isSessionGone(error);
}

/** The kinds of errors after which a client has no connection. */
const LOST: ReadonlySet<string> = new Set(['disconnected', 'brokenPipe']);

/** Whether the server no longer has the session of a client: it has expired, or the server was restarted. */
export function isSessionGone({ message }: Error): boolean {
  return /unknown session/.test(message);
}
