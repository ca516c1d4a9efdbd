import { TimeLimit } from '../../../base/time-limit.ts';
import type { ClientError, ExecProcess, ProcessEvent } from '../../../environment/index.ts';
import { OPEN_OUTPUT_QUIET_MS } from '../../limits.ts';
import { type Call, reportProgress } from '../call.ts';
import type { OutputWindow } from './output-window.ts';

/** Why following a process has ended. `stopped`: the listener has said so. */
export type FollowEnd = 'closed' | 'exited' | 'timeUp' | 'cancelled' | 'failed' | 'stopped';

/** What is known of a process after it was followed. */
export interface Followed {
  readonly end: FollowEnd;
  /** Null while the program runs. */
  readonly exitCode: number | null;
  readonly sandboxDenied: boolean;
  /** The limit of the server that ended the program. */
  readonly reason: string | null;
  /** Why it cannot be followed any longer. */
  readonly failure: ClientError | null;
}

/**
 * Passes the events of a process to the window until it has ended, the time is up, the call is cancelled or `listener` returns true. It
 * also ends when the program has exited and its output stays open and silent, which a child process can cause.
 */
export async function follow(
  process: ExecProcess,
  window: OutputWindow,
  call: Call,
  waitMs: number,
  listener: (event: ProcessEvent, pieces: readonly Uint8Array[]) => boolean = () => false,
): Promise<Followed> {
  const limit = new TimeLimit(waitMs, [call.signal]);
  const quiet = new QuietTimer();
  const stop = new TimeLimit(null, [limit.signal, quiet.signal]);
  const endProgress = reportProgress(call, () => `running; ${window.size} bytes of output`);
  let failure: ClientError | null = null;
  let end: FollowEnd | null = null;
  let exits = false;
  try {
    for await (const event of process.events({ signal: stop.signal })) {
      const pieces = window.push(event);
      if (event.type === 'failed') failure = event.error;
      if (event.type === 'failed' || event.type === 'closed') end = event.type;
      else if (listener(event, pieces)) end = 'stopped';
      if (end !== null) break;
      exits ||= event.type === 'exited';
      if (exits) quiet.restart();
    }
  } catch (error) {
    if (!stop.signal.aborted) throw error;
    end = quiet.signal.aborted ? 'exited' : call.signal.aborted ? 'cancelled' : 'timeUp';
  } finally {
    endProgress();
    quiet.stop();
    limit.end();
    stop.end();
  }
  const { exitCode, sandboxDenied, reason } = process.state;
  return { end: end ?? 'failed', exitCode, sandboxDenied, reason, failure };
}

/** Aborts after a time without events. */
class QuietTimer {
  readonly #abort = new AbortController();
  #timer: NodeJS.Timeout | undefined;

  get signal(): AbortSignal {
    return this.#abort.signal;
  }

  restart(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#abort.abort(), OPEN_OUTPUT_QUIET_MS);
  }

  stop(): void {
    clearTimeout(this.#timer);
  }
}
