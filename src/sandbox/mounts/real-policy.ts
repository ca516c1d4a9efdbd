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
import { GIT_FILE_BYTES, PROBES_AT_ONCE } from '../limits.ts';
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
import { type CrossedLink, type ResolvedPath, resolvePath } from './resolve-path.ts';

/** An entry of a policy and where its path leads. */
export interface RealEntry {
  readonly access: Access;
  readonly byName: boolean;
  readonly place: ResolvedPath;
}

/** A policy in terms of the files that are there: no path has a symbolic link in it. */
export interface RealPolicy {
  readonly base: Access;
  /** Each real path once, sorted, so that what contains comes before what is contained. */
  readonly entries: readonly RealEntry[];
  /** The files that patterns deny. */
  readonly denied: readonly NativePath[];
  /** The links that lead to what may be used. */
  readonly links: readonly CrossedLink[];
  /** Every path whose replacement would change any of this, in no particular order. */
  readonly observed: readonly NativePath[];
}

/**
 * Looks up where the paths of a policy lead. Throws SandboxError where a link on the way lies in a writable directory: a program
 * could turn it elsewhere, and what the policy closes would be open, or the next program's policy would open something else.
 */
export async function realPolicyOf(disk: DiskPolicy, probe: FileProbe): Promise<RealPolicy> {
  const named = await resolveEntries(await entriesOf(disk, probe), probe);
  const globs = await expandGlobs(disk.denyGlobs, probe);
  const access = accessMapOf(disk.base, named);
  const gitDirectories = await resolveEntries(await gitDirectoriesOf(named, access, probe), probe);
  const all = [...named, ...gitDirectories];
  checkLinks(all, disk.base, access);
  for (const [root, place] of globs.roots) checkCarveOut(root, place.links, 'deny', access);
  const ceilings = await Promise.all((disk.ceilings ?? []).map((ceiling) => realAccessOf(ceiling, probe)));
  return {
    base: disk.base,
    entries: merge(all.filter(hasEffect)).map((entry) => lowered(entry, ceilings)),
    denied: globs.files,
    links: all.filter(isUsable).flatMap(({ place }) => place.links),
    observed: observedOf(all.map(({ place }) => place)),
  };
}

interface NamedEntry {
  readonly entry: PolicyEntry;
  readonly place: ResolvedPath;
}

async function realAccessOf(disk: DiskPolicy, probe: FileProbe): Promise<AccessMap> {
  return accessMapOf(disk.base, await resolveEntries(await entriesOf(disk, probe), probe));
}

function accessMapOf(base: Access, named: readonly NamedEntry[]): AccessMap {
  const access = new AccessMap(base);
  for (const entry of merge(named.filter(hasEffect))) access.set(entry.place.real, entry.access);
  return access;
}

/** A path that leads into what another of the policies closes, by a link, opens no more of it than that policy does. */
function lowered(entry: RealEntry, ceilings: readonly AccessMap[]): RealEntry {
  const access = ceilings.map((ceiling) => ceiling.at(entry.place.real)).reduce(lesserAccess, entry.access);
  return access === entry.access ? entry : { ...entry, access, byName: entry.byName && access === 'read' };
}

/** What the policy says, the platform's directories, and the sockets of a daemon that would act for a program outside its sandbox. */
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
  const named = entries.map((entry) => ({ entry, place: null as ResolvedPath | null }));
  await forEachBounded(named, PROBES_AT_ONCE, async (one) => {
    one.place = await resolvePath(one.entry.path, probe);
  });
  return named.map(({ entry, place }) => ({ entry, place: place! }));
}

/**
 * A `.git` that is a file names the directory it stands for, and that may name another one that it shares with others, with their hooks
 * and settings. What is in them is run by tools outside just like what is in a directory of that name, so they are protected where a
 * program could write to them.
 */
async function gitDirectoriesOf(
  named: readonly NamedEntry[],
  access: AccessMap,
  probe: FileProbe,
): Promise<PolicyEntry[]> {
  const entries: PolicyEntry[] = [];
  const protect = (path: NativePath, { real, facts }: ResolvedPath) => {
    const isNamed = named.some((other) => other.entry.path === path || other.place.real === real);
    if (facts === null || isNamed || access.at(real) !== 'write') return;
    entries.push({ path: withoutSlash(path), access: 'read', byName: false });
  };
  // To hide the file from the program changes nothing for tools outside.
  const isOfRoot = ({ path, access: said, byName }: PolicyEntry) =>
    byName ||
    (said === 'deny' &&
      named.some(({ entry }) => entry.access === 'write' && entry.path === parentPath(path)));
  for (const { entry, place } of named) {
    if (lastName(entry.path) !== '.git' || place.facts?.type !== 'file' || !isOfRoot(entry)) continue;
    const text = await probe.beginning(place.real, GIT_FILE_BYTES);
    const own = namedFrom(parentPath(place.real), /^gitdir: *([^\n\0]+)/.exec(text)?.[1]);
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

/** A path as a file in `directory` names it. */
function namedFrom(directory: NativePath, text: string | undefined): NativePath | null {
  const target = text?.trimEnd();
  if (!target) return null;
  return nativePathOfBytes(isAbsolute(target) ? join('/', target) : join(directory, target));
}

function checkLinks(all: readonly NamedEntry[], base: Access, access: AccessMap): void {
  const trusted = new AccessMap(base);
  const open = all.filter(({ entry, place }) => entry.access === 'write' && place.facts !== null);
  const isMovable = (link: CrossedLink) =>
    base === 'write' || open.some(({ place }) => isWithin(link.path, place.real));
  for (const { place } of open) if (!place.links.some(isMovable)) trusted.set(place.real, 'write');
  for (const { entry, place } of all) {
    if (entry.access !== 'write') {
      const links = entry.byName ? linksBelowRoot(entry, place, open) : place.links;
      checkCarveOut(entry.path, links, entry.access, access);
    } else if (place.links.some(isMovable) && trusted.at(place.real) !== 'write') {
      const link = place.links.find(isMovable)!;
      throw unenforceable(
        `cannot let the sandbox write to ${textOfNativePath(entry.path)} because the symbolic link ${textOfNativePath(link.path)} can be changed from inside; name its target`,
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

/** The links on the way from the writable root around a protected name, which is protected wherever the root is. */
function linksBelowRoot(
  { path }: PolicyEntry,
  place: ResolvedPath,
  writable: readonly NamedEntry[],
): readonly CrossedLink[] {
  let root: NamedEntry | null = null;
  for (const candidate of writable) {
    if (!isWithin(path, candidate.entry.path) || candidate.entry.path === path) continue;
    if (root === null || candidate.entry.path.length > root.entry.path.length) root = candidate;
  }
  return root === null ? place.links : place.links.slice(root.place.links.length);
}

/** Names are protected in directories that exist; a writable root that does not is left out. */
function hasEffect({ entry, place }: NamedEntry): boolean {
  if (entry.access === 'write') return place.facts !== null;
  if (!entry.byName) return true;
  return place.facts !== null || place.unreachable !== null || place.firstMissing === place.real;
}

function isUsable({ entry, place }: NamedEntry): boolean {
  return entry.access !== 'deny' && place.facts !== null;
}

/** Two paths may lead to one place; the stronger entry holds there: deny, then write, then read. */
function merge(named: readonly NamedEntry[]): RealEntry[] {
  const merged = new Map<NativePath, RealEntry>();
  for (const { entry, place } of named) {
    const other = merged.get(place.real);
    if (other !== undefined && STRENGTH[other.access] >= STRENGTH[entry.access]) continue;
    merged.set(place.real, { access: entry.access, byName: entry.byName, place });
  }
  return [...merged.values()].sort((a, b) => (a.place.real < b.place.real ? -1 : 1));
}

const STRENGTH: Readonly<Record<Access, number>> = { read: 0, write: 1, deny: 2 };

function observedOf(places: readonly ResolvedPath[]): NativePath[] {
  const paths = new Set<NativePath>();
  for (const { real, facts, firstMissing, obstacle, links } of places) {
    if (facts !== null) paths.add(real);
    if (firstMissing !== null) paths.add(firstMissing);
    if (obstacle !== null) paths.add(obstacle);
    for (const link of links) paths.add(link.path);
  }
  return [...paths];
}

function withoutSlash(path: NativePath): NativePath {
  return path.length > 1 && path.endsWith('/') ? nativePathOfBytes(path.slice(0, -1)) : path;
}
