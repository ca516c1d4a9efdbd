import type { NativePath } from '../../files/native-path.ts';
import type { DenyGlob } from '../policy/policy.ts';
import type { FileFacts } from './file-probe.ts';

/**
 * One step in building the file tree of a sandbox. Paths are those inside, which are the same outside; none has a symbolic link in
 * it. Steps are performed in order; a later one lies over an earlier one.
 */
export type MountStep =
  | { readonly kind: 'bind'; readonly path: NativePath; readonly writable: boolean }
  /** An empty directory; `mode` says whether it can be listed (0o555), passed through (0o111) or neither (0). */
  | { readonly kind: 'emptyDirectory'; readonly path: NativePath; readonly mode: number }
  /** From here on nothing can be made in an empty directory. Comes after the steps that need places in it. */
  | { readonly kind: 'seal'; readonly path: NativePath }
  /** An empty file that cannot be written to. */
  | { readonly kind: 'emptyFile'; readonly path: NativePath; readonly mode: number }
  /** A symbolic link where the host has one but the directory around it is hidden. */
  | { readonly kind: 'link'; readonly path: NativePath; readonly target: string }
  /** A fresh root directory that is empty. */
  | { readonly kind: 'emptyRoot' }
  /** The device files that every program may use. */
  | { readonly kind: 'devices'; readonly sharedMemory: 'private' | 'host' }
  /** A view of the sandbox's own processes. */
  | { readonly kind: 'processes' };

/**
 * Something that must exist on the host while a sandbox runs, because a mount needs a place; it is removed afterwards. Another
 * sandbox may have made it already. A directory is mounted onto itself, a file is covered.
 */
export interface Placeholder {
  readonly path: NativePath;
  readonly kind: 'directory' | 'file';
}

/**
 * The modes that placeholders are given. Everybody may read them: a server that finds one of another user has to open it to hold it.
 */
export const PLACEHOLDER_MODES: Readonly<Record<Placeholder['kind'], number>> = {
  directory: 0o1555,
  file: 0o1444,
};

/**
 * Tells a placeholder from what people make: a sticky bit on something that nobody may write to has no use. One that has just been made
 * is known as well, though the umask or the directory around it may have changed its mode. Where a path that is to be closed has such a
 * mode and is empty, it counts as missing; a directory does only if its name is a protected one, because others are never made.
 */
export function isPlaceholderMode(mode: number): boolean {
  return (mode & (STICKY | WRITABLE)) === STICKY;
}

const STICKY = 0o1000;
const WRITABLE = 0o222;

/** A path that the policy closes and that does not exist. */
export interface MissingPath {
  readonly path: NativePath;
  readonly access: 'deny' | 'read';
  /** Whether it looks like an empty directory to whoever asks, because it is protected by its name. */
  readonly byName: boolean;
}

/** The file tree of a sandbox. */
export interface MountPlan {
  readonly steps: readonly MountStep[];
  /** Where something of the host is mounted, or something over it, and what that is. */
  readonly mounted: readonly MountedPlace[];
  /** What is missing on the host and has to be made before the steps can be performed. Empty in a plan for files. */
  readonly placeholders: readonly Placeholder[];
  /**
   * In a plan for files, the missing paths below writable directories that no step keeps from being made: whoever works in the
   * sandbox has to refuse them, with everything below. Empty in a plan for a program.
   */
  readonly missing: readonly MissingPath[];
  /**
   * Changes whenever the same policy would give another plan, or the same plan would mean other files: it covers the identity of
   * every path that is mounted.
   */
  readonly fingerprint: string;
  /** What the fingerprint was taken from. */
  readonly observed: ObservedFiles;
}

/** A place of a mount. */
export interface MountedPlace {
  readonly path: NativePath;
  /**
   * The file of the host that is seen there, as {@link FileFacts} tells it from others; null when it is none, or a placeholder that is not
   * there yet.
   */
  readonly identity: string | null;
}

/** Where to look to find out whether a plan still holds. */
export interface ObservedFiles {
  readonly paths: readonly NativePath[];
  readonly globs: readonly DenyGlob[];
}
