import { TimeLimit } from '../../../base/time-limit.ts';
import type { ClientError, ExecProcess, ProcessEvent } from '../../../environment/index.ts';
import { OPEN_OUTPUT_QUIET_MS } from '../../limits.ts';
import type { Call } from '../call.ts';

/** Why following a process has ended. `stopped`: the listener has ended it. */
type FollowEnd = 'closed' | 'exited' | 'timeUp' | 'cancelled' | 'failed' | 'stopped';

/** How a process is followed. */
interface FollowOptions {
  readonly waitMs: number;
  /** Takes an event. Returns true to end. */
  readonly onEvent: (event: ProcessEvent) => boolean;
  /** Ends the following, as `stopped`. */
  readonly stop?: AbortSignal;
  /** Whether to end when the program has exited and its output stays open and silent, which a child process can cause. */
  readonly untilQuiet: boolean;
  /** Whether the program has exited and nothing more is waited for. What keeps its output open may write on. */
  readonly isOver?: () => boolean;
}

/** What is known of a process after it was followed. */
export interface Followed {
  readonly end: FollowEnd;
  /** Null while the program runs. */
  readonly exitCode: number | null;
  readonly signal: string | null;
  readonly sandboxDenied: boolean;
  /** The limit of the server that ended the program. */
  readonly reason: string | null;
  /** The program has exited, and all its output has arrived here. With another end than `closed` it may not have been passed on. */
  readonly closed: boolean;
  /** Why it can no longer be followed. */
  readonly failure: ClientError | null;
}

/** Passes on the events of a process until it has ended, the time is up, the call is cancelled, or the listener ends it. */
export async function follow(process: ExecProcess, call: Call, options: FollowOptions): Promise<Followed> {
  const quiet = new QuietTimer();
  const given = options.stop === undefined ? [] : [options.stop];
  const limit = new TimeLimit(options.waitMs, [call.signal, quiet.signal, ...given]);
  let failure: ClientError | null = null;
  let end: FollowEnd | null = null;
  let exits = false;
  const setTimer = () => {
    if (options.isOver?.()) quiet.begin();
    else if (exits && options.untilQuiet) quiet.restart();
  };
  setTimer();
  try {
    for await (const event of process.events({ signal: limit.signal })) {
      if (event.type === 'failed') failure = event.error;
      const isStopped = options.onEvent(event);
      if (event.type === 'failed' || event.type === 'closed') end = event.type;
      else if (isStopped) end = 'stopped';
      if (end !== null) break;
      exits ||= event.type === 'exited';
      setTimer();
    }
  } catch (error) {
    if (!limit.signal.aborted) throw error;
    if (call.signal.aborted) end = 'cancelled';
    else end = quiet.signal.aborted ? 'exited' : options.stop?.aborted ? 'stopped' : 'timeUp';
  } finally {
    quiet.stop();
    limit.end();
  }
  const { exitCode, signal, sandboxDenied, reason, closed } = process.state;
  return { end: end ?? 'failed', exitCode, signal, sandboxDenied, reason, closed, failure };
}

/** Aborts after the time in which `closed` follows `exited`, unless a child process keeps the output open. */
class QuietTimer {
  readonly #abort = new AbortController();
  #timer: NodeJS.Timeout | undefined;

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  /** Begins the time, unless it has begun. */
  begin(): void {
    this.#timer ??= setTimeout(() => this.#abort.abort(), OPEN_OUTPUT_QUIET_MS);
  }

  restart(): void {
    this.stop();
    this.begin();
  }

  stop(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}
