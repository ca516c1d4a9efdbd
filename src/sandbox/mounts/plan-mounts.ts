import { createHash } from 'node:crypto';
import { forEachBounded } from '../../base/for-each-bounded.ts';
import { errorCode } from '../../files/errors.ts';
import { isWithin, type NativePath, nativePathOfBytes } from '../../files/native-path.ts';
import { unenforceable } from '../errors.ts';
import { PROBE_CONCURRENCY } from '../limits.ts';
import type { DiskPolicy } from '../policy/policy.ts';
import { expandGlobs } from './expand-globs.ts';
import type { FileProbe } from './file-probe.ts';
import { layOutMounts, type Mount, type PlanPurpose } from './mount-layout.ts';
import type { MountedPath, MountPlan, MountStep } from './mount-plan.ts';
import { ProbeCache } from './probe-cache.ts';
import { realPolicyOf } from './real-policy.ts';

/**
 * Plans a file tree that allows exactly what the policy allows. Creates nothing on the disk. Throws SandboxError when the policy cannot be
 * enforced with the files that exist.
 */
export async function planMounts(
  disk: DiskPolicy,
  probe: FileProbe,
  purpose: PlanPurpose,
): Promise<MountPlan> {
  return await planFrom(disk, new ProbeCache(probe), purpose);
}

/** The same with a new probe cache that the caller keeps. */
export async function planFrom(
  disk: DiskPolicy,
  probes: ProbeCache,
  purpose: PlanPurpose,
): Promise<MountPlan> {
  try {
    return await plan(disk, probes, purpose);
  } catch (error) {
    if (errorCode(error) === null) throw error;
    throw unenforceable(
      `cannot examine the files that the sandbox policy names: ${(error as Error).message}`,
    );
  }
}

/**
 * Whether a new plan for the same policy would be the same and mean the same files. Needs fewer probes than a new plan. False when a probe
 * fails; a new plan reports the error.
 */
export async function isCurrent(plan: MountPlan, probe: FileProbe): Promise<boolean> {
  const probes = new ProbeCache(probe);
  try {
    const { files } = await expandGlobs(plan.observed.globs, probes);
    return (await fingerprintOf(plan.observed.paths, files, probes)) === plan.fingerprint;
  } catch {
    return false;
  }
}

async function plan(disk: DiskPolicy, probes: FileProbe, purpose: PlanPurpose): Promise<MountPlan> {
  const policy = await realPolicyOf(disk, probes);
  const { mounts, placeholders, missing } = await layOutMounts(policy, probes, purpose);
  const mounted = mounts.filter((mount) => mount.kind === 'bind').map((mount) => mount.path);
  const paths = [...new Set([...policy.observed, ...mounted])].sort();
  return {
    steps: [...foundation(disk), ...inOrder(mounts)],
    mounted: await Promise.all(
      mounts.filter(({ kind }) => kind !== 'link').map((mount) => mountedPathOf(mount, probes)),
    ),
    placeholders,
    missing,
    fingerprint: await fingerprintOf(paths, policy.denied, probes),
    observed: { paths, globs: disk.denyGlobs },
  };
}

async function mountedPathOf({ kind, path }: Mount, probes: FileProbe): Promise<MountedPath> {
  const facts = kind === 'bind' ? await probes.facts(path) : null;
  return { path, identity: facts === null || facts === 'unreachable' ? null : facts.identity };
}

/** The file tree under all other mounts. */
function foundation({ base }: DiskPolicy): MountStep[] {
  const root: MountStep =
    base === 'deny' ? { kind: 'emptyRoot' } : { kind: 'bind', path: ROOT, writable: base === 'write' };
  return [
    root,
    { kind: 'devices', sharedMemory: base === 'write' ? 'host' : 'private' },
    { kind: 'processes' },
  ];
}

const ROOT = nativePathOfBytes('/');

/** Orders outer mounts before inner ones, because a mount covers everything below it. Seals an empty directory after its inner mounts. */
function inOrder(mounts: readonly Mount[]): MountStep[] {
  const steps: MountStep[] = [];
  const open: NativePath[] = [];
  const closeUntil = (path: NativePath | null) => {
    for (let last = open.at(-1); last !== undefined; last = open.at(-1)) {
      if (path !== null && isWithin(path, last)) return;
      steps.push({ kind: 'seal', path: last });
      open.pop();
    }
  };
  const sorted = [...mounts].sort(byPath);
  for (const [index, mount] of sorted.entries()) {
    closeUntil(mount.path);
    const next = sorted[index + 1];
    // A program that may use an inner path must be able to pass through.
    const isPassed = mount.kind === 'emptyDirectory' && next !== undefined && isWithin(next.path, mount.path);
    steps.push(isPassed ? { ...mount, mode: mount.mode | 0o111 } : mount);
    if (mount.kind === 'emptyDirectory') open.push(mount.path);
  }
  closeUntil(null);
  return steps;
}

/** Compares component by component. In byte order `/a-b` would come between `/a` and `/a/b`, and `/a` could not be sealed before it. */
function byPath(a: Mount, b: Mount): number {
  const [first, second] = [a.path.replaceAll('/', '\0'), b.path.replaceAll('/', '\0')];
  return first < second ? -1 : first > second ? 1 : 0;
}

async function fingerprintOf(
  observed: readonly NativePath[],
  denied: readonly NativePath[],
  probe: FileProbe,
): Promise<string> {
  const identities = new Map<NativePath, string>();
  await forEachBounded([...observed, ...denied], PROBE_CONCURRENCY, async (path) => {
    const facts = await probe.facts(path);
    identities.set(path, facts === null || facts === 'unreachable' ? String(facts) : facts.identity);
  });
  const hash = createHash('sha256');
  for (const path of observed) hash.update(`${path}\0${identities.get(path)}\0`);
  hash.update('\0');
  for (const path of denied) hash.update(`${path}\0${identities.get(path)}\0`);
  return hash.digest('base64url');
}
