import { isWithin, type NativePath, nativePathOfBytes } from '../../files/native-path.ts';
import { globMatches } from './deny-glob.ts';

/** What may be done with a path and everything below it. */
export type Access = 'deny' | 'read' | 'write';

/** The access that holds from `path` downwards, until a longer entry says otherwise. */
export interface PolicyEntry {
  readonly path: NativePath;
  readonly access: Access;
  /**
   * Whether the path is protected because of its name (`.git` and the like below a writable root). Such a path is kept from being
   * made where it does not exist, and looks like an empty directory then.
   */
  readonly byName: boolean;
}

/** A pattern of files that are denied; they are looked for when a program is started. */
export interface DenyGlob {
  /** Absolute. */
  readonly pattern: NativePath;
  /** How many directories below its fixed beginning the pattern is looked for; null is all. */
  readonly maxDepth: number | null;
}

/** Who may do what with files. A path that no entry covers has the access `base`. */
export interface DiskPolicy {
  readonly base: Access;
  /** Whether {@link PLATFORM_DIRECTORIES} are readable although `base` denies them. An entry for one of them comes first. */
  readonly platform: boolean;
  /** Each path once, sorted by bytes, so that what contains comes before what is contained. */
  readonly entries: readonly PolicyEntry[];
  readonly denyGlobs: readonly DenyGlob[];
  /**
   * The policies of which this is what all allow, if it is such. By their names two paths may be different places and yet, because of
   * a link, be one: each of these has to be asked again about where a path leads.
   */
  readonly ceilings?: readonly DiskPolicy[];
}

/** A sandbox in one normal form, whatever form it was asked for in. Equal sandboxes have equal keys ({@link policyKey}). */
export interface SandboxPolicy {
  /** `unrestricted` is every file, readable and writable. */
  readonly disk: DiskPolicy | 'unrestricted';
  readonly network: 'restricted' | 'enabled';
}

/** What programs need to run at all: themselves, their libraries and the settings of the system. */
export const PLATFORM_DIRECTORIES: readonly NativePath[] = [
  '/bin',
  '/etc',
  '/lib',
  '/lib64',
  '/nix/store',
  '/run/current-system/sw',
  '/sbin',
  '/usr',
].map(nativePathOfBytes);

/**
 * What the policy allows to do with a path, by name alone. A path that a pattern matches counts as denied, whether or not there is
 * a file.
 */
export function accessOf(disk: DiskPolicy | 'unrestricted', path: NativePath): Access {
  if (disk === 'unrestricted') return 'write';
  if (disk.denyGlobs.some((glob) => globMatches(glob, path))) return 'deny';
  return accessByEntries(disk, path);
}

/** The same without the patterns. */
export function accessByEntries(disk: DiskPolicy, path: NativePath): Access {
  const entry = disk.entries.findLast((candidate) => isWithin(path, candidate.path));
  if (!disk.platform) return entry?.access ?? disk.base;
  const platform = PLATFORM_DIRECTORIES.find((directory) => isWithin(path, directory));
  if (platform === undefined) return entry?.access ?? disk.base;
  return entry !== undefined && isWithin(entry.path, platform) ? entry.access : 'read';
}

/** Whether every file may be written, so that nothing has to be enforced on the disk. */
export function isFullWrite({ disk }: SandboxPolicy): boolean {
  if (disk === 'unrestricted') return true;
  return (
    disk.base === 'write' &&
    disk.denyGlobs.length === 0 &&
    disk.entries.every((entry) => entry.access === 'write')
  );
}

/** Whether every file may be read, so that nothing has to be enforced on what only reads. */
export function isFullRead({ disk }: SandboxPolicy): boolean {
  if (disk === 'unrestricted') return true;
  return (
    disk.base !== 'deny' &&
    disk.denyGlobs.length === 0 &&
    disk.entries.every((entry) => entry.access !== 'deny')
  );
}

/** A text that two policies share exactly when they are the same. */
export function policyKey({ disk, network }: SandboxPolicy): string {
  if (disk === 'unrestricted') return JSON.stringify([network]);
  return JSON.stringify([
    network,
    disk.base,
    disk.platform,
    disk.entries.map((entry) => [entry.path, entry.access, entry.byName]),
    disk.denyGlobs.map((glob) => [glob.pattern, glob.maxDepth]),
    ...(disk.ceilings ?? []).map((ceiling) => policyKey({ disk: ceiling, network })),
  ]);
}

/** The lesser of two accesses. */
export function lesserAccess(a: Access, b: Access): Access {
  return RANKS[a] <= RANKS[b] ? a : b;
}

const RANKS: Readonly<Record<Access, number>> = { deny: 0, read: 1, write: 2 };
