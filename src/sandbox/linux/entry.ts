import { setTimeout as delay } from 'node:timers/promises';
import type { Child } from '../../process/spawn/spawner.ts';
import { unenforceable } from '../errors.ts';
import type { Bwrap } from './bwrap.ts';
import { LaunchReport } from './launcher.ts';
import { BUILD_DEADLINE_MS, UNPROVEN_START_MS } from './limits.ts';
import type { NetworkMode } from './seccomp.ts';

type TriedBwrap = Pick<Bwrap, 'works' | 'path' | 'proven'>;

/**
 * Whether a bwrap that was started has built its sandbox, so that the program is executed in it; `told` resolves when it has all of its
 * instructions. Where bwrap ends before the launcher runs, what it was to mount may have been exchanged or removed a moment ago. Nothing
 * is read into what it says: if something else keeps it from working, that holds for the next attempt as well. Rejects with
 * BwrapUnavailable when it does not work here at all, which a start has to find out that comes before anything has shown it, and with
 * SandboxError when it hangs.
 */
export async function hasEntered(
  child: Child,
  network: NetworkMode,
  bwrap: TriedBwrap,
  told: Promise<void> = Promise.resolve(),
): Promise<boolean> {
  const said = await inTime(told.then(() => (bwrap.works ? child.report : unlessStuck(child.report, bwrap))));
  if (said === LaunchReport.complete) {
    if (network !== 'enabled') bwrap.proven();
    return true;
  }
  if (said === null) await bwrap.path();
  return false;
}

/** Should this process itself have been stopped meanwhile, what has come until then counts. */
async function inTime<T>(work: Promise<T>): Promise<T> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => setImmediate(reject, tooLate()), BUILD_DEADLINE_MS);
  });
  try {
    return await Promise.race([work, late]);
  } finally {
    clearTimeout(timer);
  }
}

function tooLate(): Error {
  return unenforceable(
    `bwrap has not built the sandbox within ${BUILD_DEADLINE_MS / 1_000} s: it waits for a file system that does not answer, or has been stopped; look for dead mounts and try again`,
  );
}

/** The report, or why a bwrap that says nothing does not work at all; one that only takes its time is waited for. */
async function unlessStuck(report: Child['report'], bwrap: TriedBwrap): Promise<Awaited<Child['report']>> {
  const deadline = new AbortController();
  try {
    return await Promise.race([report, whyStuck(bwrap, deadline.signal)]);
  } finally {
    deadline.abort();
  }
}

async function whyStuck(bwrap: TriedBwrap, signal: AbortSignal): Promise<never> {
  await delay(UNPROVEN_START_MS, null, { signal }).catch(() => {});
  if (!signal.aborted) await bwrap.path();
  return await new Promise<never>(() => {});
}
