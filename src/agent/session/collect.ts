import { OPEN_OUTPUT_QUIET_MS, UNREAD_BYTES } from '../limits.ts';
import { HeadTailBuffer } from '../output/head-tail-buffer.ts';
import type { Clock } from '../time/clock.ts';
import type { PausableTime } from '../time/pausable-time.ts';
import type { WatchedProcess } from './watched-process.ts';

/** How long a process is watched. */
export interface Window {
  readonly clock: Clock;
  readonly time: PausableTime;
  /** When the window is over, in that time. */
  readonly deadline: number;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Takes the unread output until the program has ended and its output is complete, or the window is over. When the program ends in
 * the meantime but its output stays open and silent, that is the end too. An aborted call rejects with the reason of the signal,
 * and everything stays unread.
 */
export async function collectOutput(process: WatchedProcess, window: Window): Promise<HeadTailBuffer> {
  const { time, deadline, signal } = window;
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
    const silent = await news(process, window, leftOpen ? Math.min(leftMs, OPEN_OUTPUT_QUIET_MS) : leftMs);
    if (silent && leftOpen) return collected;
  }
}

/** Waits until a process has ended, at most so long and only until the signal aborts. */
export async function waitForEnd(
  process: WatchedProcess,
  ms: number,
  window: Pick<Window, 'clock' | 'time' | 'signal'>,
): Promise<void> {
  const until = window.clock.now() + ms;
  for (;;) {
    const leftMs = until - window.clock.now();
    if (process.state.ended || window.signal?.aborted || leftMs <= 0) return;
    await news(process, window, leftMs);
  }
}

/** Waits for news of a process, a pause or an abort, at most so long. Whether there were none. */
function news(
  process: WatchedProcess,
  { clock, time, signal }: Pick<Window, 'clock' | 'time' | 'signal'>,
  ms: number,
): Promise<boolean> {
  return new Promise((resolve) => {
    const finish = (silent: boolean) => {
      for (const stop of stops) stop();
      signal?.removeEventListener('abort', wake);
      resolve(silent);
    };
    const wake = () => finish(false);
    const stops = [process.onNews(wake), time.onChange(wake)];
    if (Number.isFinite(ms)) stops.push(clock.after(ms, () => finish(true)));
    signal?.addEventListener('abort', wake);
  });
}
