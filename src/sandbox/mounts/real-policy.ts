import { isAbsolute, join } from 'node:path/posix';
import { forEachBounded } from '../../base/for-each-bounded.ts';
import {
  childPath,
  isWithin,
  lastName,
  type NativePath,
  nativePathOfBytes,
  parentPath,
  textOfNativePath,
} from '../../files/native-path.ts';
import { unenforceable } from '../errors.ts';
import { GIT_FILE_BYTES, PROBE_CONCURRENCY } from '../limits.ts';
import {
  type Access,
  type DiskPolicy,
  lesserAccess,
  PLATFORM_DIRECTORIES,
  type PolicyEntry,
} from '../policy/policy.ts';
import { AccessMap } from './access-map.ts';
import { expandGlobs } from './expand-globs.ts';
import type { FileProbe } from './file-probe.ts';
import type { KernelMount } from './kernel-mounts.ts';
import { type CrossedLink, type ResolvedPath, resolvePath } from './resolve-path.ts';

/** An entry of a policy with its path resolved. */
export interface RealEntry {
  readonly access: Access;
  /** Whether the entry only restricts a writable directory around it: a protected name, or a file system of the kernel. */
  readonly byName: boolean;
  readonly resolved: ResolvedPath;
}

/** A policy with all symbolic links resolved. */
export interface RealPolicy {
  readonly base: Access;
  /** Each real path once, sorted, so that outer paths come before inner ones. */
  readonly entries: readonly RealEntry[];
  /** The files that deny globs match. */
  readonly denied: readonly NativePath[];
  /** The links that lead to accessible paths. */
  readonly links: readonly CrossedLink[];
  /** Every path whose replacement would change the result, in no particular order. */
  readonly observed: readonly NativePath[];
}

/**
 * Resolves the paths of a policy. Throws SandboxError for a link in a writable directory. A program could change its target: then a
 * restricted path would become accessible, or the next program's policy would allow another path.
 */
export async function realPolicyOf(disk: DiskPolicy, probe: FileProbe): Promise<RealPolicy> {
  const named = await resolveEntries(await entriesOf(disk, probe), probe);
  const globs = await expandGlobs(disk.denyGlobs, probe);
  const access = accessMapOf(disk.base, named);
  const gitDirectories = await resolveEntries(await gitDirectoriesOf(named, access, probe), probe);
  const all = [...named, ...gitDirectories];
  checkLinks(all, disk.base, access);
  for (const [root, resolved] of globs.roots) checkCarveOut(root, resolved.links, 'deny', access);
  const ceilings = await Promise.all((disk.ceilings ?? []).map((ceiling) => realAccessOf(ceiling, probe)));
  const kernel = await probe.kernelMounts();
  const asked = merge(all.filter(hasEffect)).map((entry) => withoutKernel(lowered(entry, ceilings), kernel));
  return {
    base: disk.base,
    entries: byRealPath([...asked, ...(await kernelEntriesOf(kernel, asked, disk.base, probe))]),
    denied: globs.files,
    links: all.filter(isUsable).flatMap(({ resolved }) => resolved.links),
    observed: observedOf(all.map(({ resolved }) => resolved)),
  };
}

interface NamedEntry {
  readonly entry: PolicyEntry;
  readonly resolved: ResolvedPath;
}

async function realAccessOf(disk: DiskPolicy, probe: FileProbe): Promise<AccessMap> {
  return accessMapOf(disk.base, await resolveEntries(await entriesOf(disk, probe), probe));
}

function accessMapOf(base: Access, named: readonly NamedEntry[]): AccessMap {
  const access = new AccessMap(base);
  for (const entry of merge(named.filter(hasEffect))) access.set(entry.resolved.real, entry.access);
  return access;
}

/** Limits an entry to what the ceilings allow at its real path, which a link may lead to. */
function lowered(entry: RealEntry, ceilings: readonly AccessMap[]): RealEntry {
  const access = ceilings
    .map((ceiling) => ceiling.at(entry.resolved.real))
    .reduce(lesserAccess, entry.access);
  return access === entry.access ? entry : { ...entry, access, byName: entry.byName && access === 'read' };
}

/** No policy makes a file system of the kernel writable, or shows the processes of the host, whatever its entries name. */
function withoutKernel(entry: RealEntry, kernel: readonly KernelMount[]): RealEntry {
  const around = kernel.find(({ path }) => isWithin(entry.resolved.real, path));
  return around === undefined ? entry : { ...entry, access: lesserAccess(entry.access, around.access) };
}

/** Entries for the file systems of the kernel that would otherwise be accessible because of what is around them. */
async function kernelEntriesOf(
  kernel: readonly KernelMount[],
  asked: readonly RealEntry[],
  base: Access,
  probe: FileProbe,
): Promise<RealEntry[]> {
  const around = new AccessMap(base);
  for (const { resolved, access } of asked) around.set(resolved.real, access);
  const named = new Set(asked.map(({ resolved }) => resolved.real));
  const entries: RealEntry[] = [];
  for (const { path, device, access } of kernel) {
    const isOpen = access === 'read' ? around.around(path) === 'write' : around.around(path) !== 'deny';
    if (!isOpen || named.has(path)) continue;
    const resolved = await resolvePath(path, probe);
    const isShown = resolved.facts?.identity.startsWith(`${device}:`) === true;
    if (isShown || (await mayBecomeShown(resolved, probe)))
      entries.push({ access, byName: access === 'read', resolved });
  }
  return entries;
}

/** Whether the server's user could make a closed directory accessible. Otherwise no program gets past it. */
async function mayBecomeShown({ unreachable }: ResolvedPath, probe: FileProbe): Promise<boolean> {
  if (unreachable === null) return false;
  const facts = await probe.facts(unreachable);
  return facts !== null && facts !== 'unreachable' && facts.uid === process.geteuid?.();
}

/** The entries of the policy, the platform directories, and a deny entry for the sockets of a daemon that would act for a program outside of its sandbox. */
async function entriesOf(disk: DiskPolicy, probe: FileProbe): Promise<PolicyEntry[]> {
  const entries = [...disk.entries];
  const add = (path: NativePath, access: Access) => {
    if (!disk.entries.some((entry) => entry.path === path)) entries.push({ path, access, byName: false });
  };
  if (disk.platform) for (const path of PLATFORM_DIRECTORIES) add(path, 'read');
  const daemon = nativePathOfBytes(`/tmp/codex-daemon-${process.geteuid?.()}`);
  const facts = await probe.facts(daemon);
  if (facts !== null && facts !== 'unreachable' && facts.type === 'directory') add(daemon, 'deny');
  return entries;
}

async function resolveEntries(entries: readonly PolicyEntry[], probe: FileProbe): Promise<NamedEntry[]> {
  const named = entries.map((entry) => ({ entry, resolved: null as ResolvedPath | null }));
  await forEachBounded(named, PROBE_CONCURRENCY, async (one) => {
    one.resolved = await resolvePath(one.entry.path, probe);
  });
  return named.map(({ entry, resolved }) => ({ entry, resolved: resolved! }));
}

/**
 * A `.git` file names a git directory, and that may name a common directory with shared hooks and settings. Tools outside of the sandbox run
 * their content just like that of a `.git` directory. So both are protected where a program could write to them.
 */
async function gitDirectoriesOf(
  named: readonly NamedEntry[],
  access: AccessMap,
  probe: FileProbe,
): Promise<PolicyEntry[]> {
  const entries: PolicyEntry[] = [];
  const protect = (path: NativePath, { real, facts }: ResolvedPath) => {
    const isNamed = named.some((other) => other.entry.path === path || other.resolved.real === real);
    if (facts === null || isNamed || access.at(real) !== 'write') return;
    entries.push({ path: withoutSlash(path), access: 'read', byName: false });
  };
  // Hiding the file from the program changes nothing for tools outside of the sandbox.
  const isOfRoot = ({ path, access: entryAccess, byName }: PolicyEntry) =>
    byName ||
    (entryAccess === 'deny' &&
      named.some(({ entry }) => entry.access === 'write' && entry.path === parentPath(path)));
  for (const { entry, resolved } of named) {
    if (lastName(entry.path) !== '.git' || resolved.facts?.type !== 'file' || !isOfRoot(entry)) continue;
    const text = await probe.beginning(resolved.real, GIT_FILE_BYTES);
    const own = namedFrom(parentPath(resolved.real), /^gitdir: *([^\n\0]+)/.exec(text)?.[1]);
    if (own === null) continue;
    const directory = await resolvePath(own, probe);
    protect(own, directory);
    const pointer = await resolvePath(childPath(directory.real, 'commondir'), probe);
    if (pointer.facts?.type !== 'file') continue;
    const common = namedFrom(
      directory.real,
      /^[^\n\0]+/.exec(await probe.beginning(pointer.real, GIT_FILE_BYTES))?.[0],
    );
    if (common !== null) protect(common, await resolvePath(common, probe));
  }
  return entries;
}

/** Resolves a path that a file in `directory` names. */
function namedFrom(directory: NativePath, text: string | undefined): NativePath | null {
  const target = text?.trimEnd();
  if (!target) return null;
  return nativePathOfBytes(isAbsolute(target) ? join('/', target) : join(directory, target));
}

function checkLinks(all: readonly NamedEntry[], base: Access, access: AccessMap): void {
  const writable = new AccessMap(base);
  const open = all.filter(({ entry, resolved }) => entry.access === 'write' && resolved.facts !== null);
  const isWritable = (link: CrossedLink) =>
    base === 'write' || open.some(({ resolved }) => isWithin(link.path, resolved.real));
  for (const { resolved } of open) if (!resolved.links.some(isWritable)) writable.set(resolved.real, 'write');
  for (const { entry, resolved } of all) {
    if (entry.access !== 'write') {
      const links = entry.byName ? linksBelowRoot(entry, resolved, open) : resolved.links;
      checkCarveOut(entry.path, links, entry.access, access);
    } else if (resolved.links.some(isWritable) && writable.at(resolved.real) !== 'write') {
      const link = resolved.links.find(isWritable)!;
      throw unenforceable(
        `cannot let the sandbox write to ${textOfNativePath(entry.path)} because the symbolic link ${textOfNativePath(link.path)} can be changed from inside the sandbox; name its target instead`,
      );
    }
  }
}

function checkCarveOut(
  path: NativePath,
  links: readonly CrossedLink[],
  access: 'deny' | 'read',
  areas: AccessMap,
): void {
  const link = links.find((candidate) => areas.at(candidate.path) === 'write');
  if (link === undefined) return;
  const what = access === 'deny' ? 'deny-read' : 'read-only';
  throw unenforceable(
    `cannot enforce sandbox ${what} path ${textOfNativePath(path)} because it crosses writable symlink ${textOfNativePath(link.path)}`,
  );
}

/** The links after the writable root of a protected name. The links to the root itself do not matter. */
function linksBelowRoot(
  { path }: PolicyEntry,
  resolved: ResolvedPath,
  writable: readonly NamedEntry[],
): readonly CrossedLink[] {
  let root: NamedEntry | null = null;
  for (const candidate of writable) {
    if (!isWithin(path, candidate.entry.path) || candidate.entry.path === path) continue;
    if (root === null || candidate.entry.path.length > root.entry.path.length) root = candidate;
  }
  return root === null ? resolved.links : resolved.links.slice(root.resolved.links.length);
}

/** Ignores writable roots that do not exist, and protected names in directories that do not exist. */
function hasEffect({ entry, resolved }: NamedEntry): boolean {
  if (entry.access === 'write') return resolved.facts !== null;
  if (!entry.byName) return true;
  return resolved.facts !== null || resolved.unreachable !== null || resolved.firstMissing === resolved.real;
}

function isUsable({ entry, resolved }: NamedEntry): boolean {
  return entry.access !== 'deny' && resolved.facts !== null;
}

/** Merges entries with the same real path. The strongest access wins: deny, then write, then read. */
function merge(named: readonly NamedEntry[]): RealEntry[] {
  const merged = new Map<NativePath, RealEntry>();
  for (const { entry, resolved } of named) {
    const other = merged.get(resolved.real);
    if (other !== undefined && STRENGTH[other.access] >= STRENGTH[entry.access]) continue;
    merged.set(resolved.real, { access: entry.access, byName: entry.byName, resolved });
  }
  return byRealPath([...merged.values()]);
}

function byRealPath(entries: readonly RealEntry[]): RealEntry[] {
  return [...entries].sort((a, b) => (a.resolved.real < b.resolved.real ? -1 : 1));
}

const STRENGTH: Readonly<Record<Access, number>> = { read: 0, write: 1, deny: 2 };

function observedOf(resolvedPaths: readonly ResolvedPath[]): NativePath[] {
  const paths = new Set<NativePath>();
  for (const { real, facts, firstMissing, nonDirectory, links } of resolvedPaths) {
    if (facts !== null) paths.add(real);
    if (firstMissing !== null) paths.add(firstMissing);
    if (nonDirectory !== null) paths.add(nonDirectory);
    for (const link of links) paths.add(link.path);
  }
  return [...paths];
}

function withoutSlash(path: NativePath): NativePath {
  return path.length > 1 && path.endsWith('/') ? nativePathOfBytes(path.slice(0, -1)) : path;
}
