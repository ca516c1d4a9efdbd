import type { Clock, PausableClock } from '../clock.ts';
import { OPEN_OUTPUT_QUIET_MS, UNREAD_BYTES } from '../limits.ts';
import { HeadTailBuffer } from '../output/head-tail-buffer.ts';
import type { WatchedProcess } from './watched-process.ts';

/** The limits of a wait for a process. */
export interface WaitLimits {
  readonly clock: Clock;
  readonly time: PausableClock;
  /** The end of the wait on the pausable clock `time`. */
  readonly deadline: number;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Takes the unread output until the program has ended and its output is complete, or until the deadline. It also returns when the
 * program exits meanwhile and its output stays open and silent. An aborted call rejects with the signal's reason and leaves all
 * output unread.
 */
export async function collectOutput(process: WatchedProcess, limits: WaitLimits): Promise<HeadTailBuffer> {
  const { time, deadline, signal } = limits;
  const runsAtFirst = !process.state.hasExited;
  const collected = new HeadTailBuffer(UNREAD_BYTES);
  for (;;) {
    collected.append(process.unread.take());
    if (signal?.aborted) {
      process.unread.append(collected);
      throw signal.reason;
    }
    if (process.state.ended) return collected;
    const leftMs = time.paused ? Number.POSITIVE_INFINITY : deadline - time.now();
    if (leftMs <= 0) return collected;
    const leftOpen = runsAtFirst && process.state.hasExited;
    const silent = await waitForChange(
      process,
      limits,
      leftOpen ? Math.min(leftMs, OPEN_OUTPUT_QUIET_MS) : leftMs,
    );
    if (silent && leftOpen) return collected;
  }
}

/** Waits until a process has ended, the time is up or the signal aborts. */
export async function waitForEnd(
  process: WatchedProcess,
  ms: number,
  limits: Pick<WaitLimits, 'clock' | 'time' | 'signal'>,
): Promise<void> {
  const until = limits.clock.now() + ms;
  for (;;) {
    const leftMs = until - limits.clock.now();
    if (process.state.ended || limits.signal?.aborted || leftMs <= 0) return;
    await waitForChange(process, limits, leftMs);
  }
}

/** Waits for a change of the process, a pause or an abort. Returns whether the time was up first. */
function waitForChange(
  process: WatchedProcess,
  { clock, time, signal }: Pick<WaitLimits, 'clock' | 'time' | 'signal'>,
  ms: number,
): Promise<boolean> {
  return new Promise((resolve) => {
    const finish = (silent: boolean) => {
      for (const stop of stops) stop();
      signal?.removeEventListener('abort', wake);
      resolve(silent);
    };
    const wake = () => finish(false);
    const stops = [process.onChange(wake), time.onChange(wake)];
    if (Number.isFinite(ms)) stops.push(clock.after(ms, () => finish(true)));
    signal?.addEventListener('abort', wake);
  });
}
