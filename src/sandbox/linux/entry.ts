import { withTimeout } from '../../base/with-timeout.ts';
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
  const reported = told.then(() => (bwrap.works ? child.report : unlessStuck(child.report, bwrap)));
  const said = await withTimeout(reported, BUILD_DEADLINE_MS, { onTimeout: tooLate });
  if (said === LaunchReport.complete) {
    if (network !== 'enabled') bwrap.proven();
    return true;
  }
  if (said === null) await bwrap.path();
  return false;
}

/**
 * Fails the start. Should this process itself have been stopped meanwhile, a report that has come until then counts: the event loop
 * reads it before the immediate runs.
 */
function tooLate(): Promise<never> {
  const error = unenforceable(
    `bwrap has not built the sandbox within ${BUILD_DEADLINE_MS / 1_000} s: it waits for a file system that does not answer, or has been stopped; look for dead mounts and try again`,
  );
  return new Promise((_, reject) => setImmediate(reject, error));
}

/** The report, or why a bwrap that says nothing does not work at all; one that only takes its time is waited for. */
function unlessStuck(report: Child['report'], bwrap: TriedBwrap): Promise<Awaited<Child['report']>> {
  const checkBwrap = async () => {
    await bwrap.path();
    return report;
  };
  return withTimeout(Promise.resolve(report), UNPROVEN_START_MS, { onTimeout: checkBwrap });
}
