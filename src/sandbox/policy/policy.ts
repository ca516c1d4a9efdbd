import { isWithin, type NativePath, nativePathOfBytes } from '../../files/native-path.ts';
import { globMatches } from './deny-glob.ts';

/** The access to a path and everything below it. */
export type Access = 'deny' | 'read' | 'write';

/** The access to `path` and everything below it, except where an entry for a longer path applies. */
export interface PolicyEntry {
  readonly path: NativePath;
  readonly access: Access;
  /**
   * Whether the path is protected because of its name (such as `.git` below a writable root). If it does not exist, it cannot be created
   * and is shown as an empty directory.
   */
  readonly byName: boolean;
}

/** A glob for denied files. They are searched for when a program is started. */
export interface DenyGlob {
  /** Absolute. */
  readonly pattern: NativePath;
  /** How many directory levels below its fixed prefix are searched. Null is all. */
  readonly maxDepth: number | null;
}

/** Access to files. A path without an entry has the access `base`. */
export interface DiskPolicy {
  readonly base: Access;
  /** Whether {@link PLATFORM_DIRECTORIES} are readable although `base` denies them. Explicit entries take precedence. */
  readonly platform: boolean;
  /** Each path once, sorted by bytes, so that outer paths come before inner ones. */
  readonly entries: readonly PolicyEntry[];
  readonly denyGlobs: readonly DenyGlob[];
  /**
   * The policies that were intersected. Two different paths may be the same file because of a link, so each ceiling is applied again to
   * the resolved paths.
   */
  readonly ceilings?: readonly DiskPolicy[];
}

/** A sandbox in normal form. Equal sandboxes have equal keys ({@link policyKey}). */
export interface SandboxPolicy {
  /** `unrestricted` allows reading and writing every file. */
  readonly disk: DiskPolicy | 'unrestricted';
  readonly network: 'restricted' | 'enabled';
}

/** Directories with executables, libraries and system settings, which programs need to run. */
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
 * The access to a path, by name alone. A path that a deny glob matches counts as denied, whether or not the file exists.
 */
export function accessOf(disk: DiskPolicy | 'unrestricted', path: NativePath): Access {
  if (disk === 'unrestricted') return 'write';
  if (disk.denyGlobs.some((glob) => globMatches(glob, path))) return 'deny';
  return accessByEntries(disk, path);
}

/** The same without the globs. */
export function accessByEntries(disk: DiskPolicy, path: NativePath): Access {
  const entry = disk.entries.findLast((candidate) => isWithin(path, candidate.path));
  if (!disk.platform) return entry?.access ?? disk.base;
  const platform = PLATFORM_DIRECTORIES.find((directory) => isWithin(path, directory));
  if (platform === undefined) return entry?.access ?? disk.base;
  return entry !== undefined && isWithin(entry.path, platform) ? entry.access : 'read';
}

/** Whether every file is writable, so that nothing has to be enforced for files. */
export function isFullWrite({ disk }: SandboxPolicy): boolean {
  if (disk === 'unrestricted') return true;
  return (
    disk.base === 'write' &&
    disk.denyGlobs.length === 0 &&
    disk.entries.every((entry) => entry.access === 'write')
  );
}

/** Whether every file is readable, so that nothing has to be enforced for reading. */
export function isFullRead({ disk }: SandboxPolicy): boolean {
  if (disk === 'unrestricted') return true;
  return (
    disk.base !== 'deny' &&
    disk.denyGlobs.length === 0 &&
    disk.entries.every((entry) => entry.access !== 'deny')
  );
}

/** The policy that also denies a directory, whatever it says about paths in there. */
export function withDenied(disk: DiskPolicy, directory: NativePath): DiskPolicy {
  const kept = disk.entries.filter(({ path }) => !isWithin(path, directory));
  const entries = [...kept, { path: directory, access: 'deny', byName: false } as const];
  return { ...disk, entries: entries.sort((a, b) => (a.path < b.path ? -1 : 1)) };
}

/** A string that is equal for equal policies only. */
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
