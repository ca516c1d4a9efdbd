import type { ExecServerClient } from '../../client/client.ts';
import { ClientError } from '../../client/errors.ts';
import type { Host } from '../commands.ts';
import { LOCAL, type Target } from '../environments/target.ts';
import { type Connected, type GivenTarget, withClient } from '../environments/with-client.ts';
import { RunError } from '../failures.ts';
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
    let hasServerEnded = false;
    let isReported = false;
    const lost = async ({ client, target }: Connected) => {
      hasServerEnded = await isServerGone(target, host.env);
      if (hasServerEnded) await client.close();
      else if (client.state !== 'connected') {
        isReported = true;
        events.lost();
      }
    };
    const restored = () => {
      if (isReported) events.restored();
      isReported = false;
    };
    try {
      return await withClient(given, host, options, async (connected) => {
        const stop = watchLine(connected.client, { ...events, restored, lost: () => void lost(connected) });
        try {
          return await use(connected);
        } finally {
          stop();
        }
      });
    } catch (error) {
      if (hasServerEnded) throw serverGoneError(error as Error);
      if (!isSessionGone(error as Error)) throw error;
    }
  }
}

/** Whether there is no server any more that could have the programs. Known only of the private server of this machine. */
export async function isServerGone({ name }: Pick<Target, 'name'>, env: NodeJS.ProcessEnv): Promise<boolean> {
  if (name !== LOCAL) return false;
  const { isPrivateServerGone } = await import('../private-server/is-private-server-gone.ts');
  return isPrivateServerGone(env);
}

/** The error for a private server that has ended. */
export function serverGoneError({ kind }: Error & { readonly kind?: string }): RunError {
  return new RunError('the private server has ended, and the program with it; run the program again', {
    ...(kind !== undefined && { kind }),
  });
}

/** The error for a process that the server does not know in a later session than the one in which it was found; otherwise `error`. */
export function processGoneError(error: Error, name: string): Error {
  if (!/^unknown process id/.test(error.message)) return error;
  return new RunError(
    `the server no longer has ${name}: it was restarted, or the process was removed; run the program again`,
    { kind: 'notFound' },
  );
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
