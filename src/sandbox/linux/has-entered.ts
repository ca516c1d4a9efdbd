import { withTimeout } from '../../base/with-timeout.ts';
import type { Child } from '../../process/spawn/spawner.ts';
import { unenforceable } from '../errors.ts';
import type { Bwrap } from './bwrap.ts';
import { LaunchReport } from './launcher.ts';
import { BUILD_DEADLINE_MS, UNVERIFIED_START_MS } from './limits.ts';
import type { NetworkMode } from './seccomp.ts';

type EnteredBwrap = Pick<Bwrap, 'works' | 'path' | 'markWorking'>;

/**
 * Waits for the launcher's report and returns whether the sandbox is complete, so that the program runs in it. `instructed` resolves when
 * bwrap has all of its instructions. False when bwrap exits before the launcher runs: a file that it had to mount may have been replaced or
 * removed a moment ago. bwrap's output is not interpreted, because any other problem makes the next attempt fail too. Rejects with
 * BwrapUnavailable when bwrap does not work on this machine, and with SandboxError when it hangs.
 */
export async function hasEntered(
  child: Child,
  network: NetworkMode,
  bwrap: EnteredBwrap,
  instructed: Promise<void> = Promise.resolve(),
): Promise<boolean> {
  const reported = instructed.then(() => (bwrap.works ? child.report : reportOrProbe(child.report, bwrap)));
  const report = await withTimeout(reported, BUILD_DEADLINE_MS, { onTimeout: tooLate });
  if (report === LaunchReport.complete) {
    if (network !== 'enabled') bwrap.markWorking();
    return true;
  }
  if (report === null) await bwrap.path();
  return false;
}

/**
 * Fails the start. If this process itself was stopped in the meantime, a report that has arrived counts: the event loop reads it before
 * the immediate runs.
 */
function tooLate(): Promise<never> {
  const error = unenforceable(
    `bwrap has not built the sandbox within ${BUILD_DEADLINE_MS / 1_000} s: it waits for a file system that does not answer, or it was stopped; check for dead mounts and try again`,
  );
  return new Promise((_, reject) => setImmediate(reject, error));
}

/** Probes bwrap if the report takes long. Rejects when bwrap does not work at all; keeps waiting when it is only slow. */
function reportOrProbe(report: Child['report'], bwrap: EnteredBwrap): Promise<Awaited<Child['report']>> {
  const checkBwrap = async () => {
    await bwrap.path();
    return report;
  };
  return withTimeout(Promise.resolve(report), UNVERIFIED_START_MS, { onTimeout: checkBwrap });
}
