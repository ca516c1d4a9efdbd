import { createHash } from 'node:crypto';
import { forEachBounded } from '../../base/for-each-bounded.ts';
import { errorCode } from '../../files/errors.ts';
import { isWithin, type NativePath, nativePathOfBytes } from '../../files/native-path.ts';
import { unenforceable } from '../errors.ts';
import { PROBES_AT_ONCE } from '../limits.ts';
import type { DiskPolicy } from '../policy/policy.ts';
import { expandGlobs } from './expand-globs.ts';
import type { FileProbe } from './file-probe.ts';
import { layMounts, type Mount, type PlanPurpose } from './lay-mounts.ts';
import type { MountedPlace, MountPlan, MountStep } from './mount-plan.ts';
import { realPolicyOf } from './real-policy.ts';
import { RememberedLooks } from './remembered-looks.ts';

/**
 * The file tree in which nothing but the policy is possible. A plan makes nothing on the disk. Throws SandboxError when the policy
 * cannot be kept with what is there.
 */
export async function planMounts(
  disk: DiskPolicy,
  probe: FileProbe,
  purpose: PlanPurpose,
): Promise<MountPlan> {
  return await planFrom(disk, new RememberedLooks(probe), purpose);
}

/** The same from looks that the caller keeps; none must have been taken before. */
export async function planFrom(
  disk: DiskPolicy,
  looks: RememberedLooks,
  purpose: PlanPurpose,
): Promise<MountPlan> {
  try {
    return await plan(disk, looks, purpose);
  } catch (error) {
    if (errorCode(error) === null) throw error;
    throw unenforceable(`cannot look at the files that the sandbox is about: ${(error as Error).message}`);
  }
}

/**
 * Whether a new plan of the same policy would be the same, and mean the same files. It takes fewer looks than a new plan. Where one
 * cannot look a plan does not hold; a new one tells why.
 */
export async function isCurrent(plan: MountPlan, probe: FileProbe): Promise<boolean> {
  const looks = new RememberedLooks(probe);
  try {
    const { files } = await expandGlobs(plan.observed.globs, looks);
    return (await fingerprintOf(plan.observed.paths, files, looks)) === plan.fingerprint;
  } catch {
    return false;
  }
}

async function plan(disk: DiskPolicy, looks: FileProbe, purpose: PlanPurpose): Promise<MountPlan> {
  const policy = await realPolicyOf(disk, looks);
  const { mounts, placeholders, missing } = await layMounts(policy, looks, purpose);
  const mounted = mounts.filter((mount) => mount.kind === 'bind').map((mount) => mount.path);
  const paths = [...new Set([...policy.observed, ...mounted])].sort();
  return {
    steps: [...foundation(disk), ...inOrder(mounts)],
    mounted: await Promise.all(
      mounts.filter(({ kind }) => kind !== 'link').map((mount) => placeOf(mount, looks)),
    ),
    placeholders,
    missing,
    fingerprint: await fingerprintOf(paths, policy.denied, looks),
    observed: { paths, globs: disk.denyGlobs },
  };
}

async function placeOf({ kind, path }: Mount, looks: FileProbe): Promise<MountedPlace> {
  const facts = kind === 'bind' ? await looks.facts(path) : null;
  return { path, identity: facts === null || facts === 'unreachable' ? null : facts.identity };
}

/** The tree that the mounts are laid over. */
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

/** What contains comes before what is contained, because a mount covers everything below it; an empty directory is closed last. */
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
    // Who may use something inside must be able to pass.
    const isPassed = mount.kind === 'emptyDirectory' && next !== undefined && isWithin(next.path, mount.path);
    steps.push(isPassed ? { ...mount, mode: mount.mode | 0o111 } : mount);
    if (mount.kind === 'emptyDirectory') open.push(mount.path);
  }
  closeUntil(null);
  return steps;
}

/** Names are compared one by one: by bytes `/a-b` would come between `/a` and `/a/b`, and `/a` could not be closed before it. */
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
  await forEachBounded([...observed, ...denied], PROBES_AT_ONCE, async (path) => {
    const facts = await probe.facts(path);
    identities.set(path, facts === null || facts === 'unreachable' ? String(facts) : facts.identity);
  });
  const hash = createHash('sha256');
  for (const path of observed) hash.update(`${path}\0${identities.get(path)}\0`);
  hash.update('\0');
  for (const path of denied) hash.update(`${path}\0${identities.get(path)}\0`);
  return hash.digest('base64url');
}
