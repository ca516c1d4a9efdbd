import type { NativePath } from '../../files/native-path.ts';
import {
  accessByEntries,
  type DenyGlob,
  type DiskPolicy,
  lesserAccess,
  PLATFORM_DIRECTORIES,
  type PolicyEntry,
  policyKey,
  type SandboxPolicy,
} from './policy.ts';

/** The policy that allows exactly what both policies allow. */
export function intersect(a: SandboxPolicy, b: SandboxPolicy): SandboxPolicy {
  return {
    disk: intersectDisks(a.disk, b.disk),
    network: a.network === 'restricted' ? 'restricted' : b.network,
  };
}

function intersectDisks(a: SandboxPolicy['disk'], b: SandboxPolicy['disk']): SandboxPolicy['disk'] {
  if (a === 'unrestricted') return b;
  if (b === 'unrestricted') return a;
  const ceilings = ceilingsOf(a, b);
  if (ceilings.length === 1) return a;
  const platform = a.platform && b.platform;
  // The access changes only at an entry of one of them, so an entry with the lesser access is added there.
  const paths = new Set([...a.entries, ...b.entries].map((entry) => entry.path));
  if (!platform && (a.platform || b.platform)) for (const path of PLATFORM_DIRECTORIES) paths.add(path);
  const byName = new Set([...a.entries, ...b.entries].flatMap((entry) => (entry.byName ? [entry.path] : [])));
  return {
    base: lesserAccess(a.base, b.base),
    platform,
    entries: [...paths].sort().map((path) => lesserEntry(a, b, path, byName)),
    denyGlobs: unionOfGlobs(a.denyGlobs, b.denyGlobs),
    ceilings,
  };
}

/** Each policy once, in an order that does not depend on the order of the arguments. */
function ceilingsOf(a: DiskPolicy, b: DiskPolicy): DiskPolicy[] {
  const ceilings = new Map<string, DiskPolicy>();
  for (const disk of [a, b].flatMap((one) => one.ceilings ?? [one])) {
    ceilings.set(policyKey({ disk, network: 'restricted' }), disk);
  }
  return [...ceilings.keys()].sort().map((key) => ceilings.get(key)!);
}

function lesserEntry(
  a: DiskPolicy,
  b: DiskPolicy,
  path: NativePath,
  byName: ReadonlySet<NativePath>,
): PolicyEntry {
  const access = lesserAccess(accessByEntries(a, path), accessByEntries(b, path));
  return { path, access, byName: access === 'read' && byName.has(path) };
}

/** Denies what either policy denies. If both have the same glob, the larger depth is used. */
function unionOfGlobs(a: readonly DenyGlob[], b: readonly DenyGlob[]): DenyGlob[] {
  const globs = new Map<NativePath, DenyGlob>();
  for (const glob of [...a, ...b]) {
    const other = globs.get(glob.pattern);
    if (other === undefined || reachOf(glob) > reachOf(other)) globs.set(glob.pattern, glob);
  }
  return [...globs.keys()].sort().map((pattern) => globs.get(pattern)!);
}

function reachOf({ maxDepth }: DenyGlob): number {
  return maxDepth ?? Number.POSITIVE_INFINITY;
}
