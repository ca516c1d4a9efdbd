import type { NativePath } from '../../files/native-path.ts';
import type { DenyGlob } from '../policy/policy.ts';
import type { FileFacts } from './file-probe.ts';

/**
 * One step in building the file tree of a sandbox. Paths are the same inside and outside, with links resolved. Steps run in order; a
 * later one covers an earlier one.
 */
export type MountStep =
  | { readonly kind: 'bind'; readonly path: NativePath; readonly writable: boolean }
  /** An empty directory. `mode` says whether it can be listed (0o555), passed through (0o111) or neither (0). */
  | { readonly kind: 'emptyDirectory'; readonly path: NativePath; readonly mode: number }
  /** Makes an empty directory read-only. Comes after the steps that need mount points in it. */
  | { readonly kind: 'seal'; readonly path: NativePath }
  /** An empty file that cannot be written to. */
  | { readonly kind: 'emptyFile'; readonly path: NativePath; readonly mode: number }
  /** A symbolic link of the host whose directory is hidden. */
  | { readonly kind: 'link'; readonly path: NativePath; readonly target: string }
  /** An empty root directory. */
  | { readonly kind: 'emptyRoot' }
  /** A /dev with the device files that every program may use. */
  | { readonly kind: 'devices'; readonly sharedMemory: 'private' | 'host' }
  /** A /proc that shows the sandbox's own processes. */
  | { readonly kind: 'processes' };

/**
 * A mount point that must exist on the host while a sandbox runs and is removed afterwards. Another sandbox may have created it already.
 * A directory is bind-mounted onto itself, a file is covered.
 */
export interface Placeholder {
  readonly path: NativePath;
  readonly kind: 'directory' | 'file';
}

/** The modes of placeholders. All users may read them, because a server must open the placeholder of another user to lock it. */
export const PLACEHOLDER_MODES: Readonly<Record<Placeholder['kind'], number>> = {
  directory: 0o1555,
  file: 0o1444,
};

/** A path that the policy restricts and that does not exist. */
export interface MissingPath {
  readonly path: NativePath;
  readonly access: 'deny' | 'read';
  /** Whether it is shown as an empty directory, because its name is protected. */
  readonly byName: boolean;
}

/** The file tree of a sandbox. */
export interface MountPlan {
  readonly steps: readonly MountStep[];
  /** The paths of the mounts, and which file is mounted at each. */
  readonly mounted: readonly MountedPath[];
  /** Mount points that must be created before the steps can run. Empty in a plan for files. */
  readonly placeholders: readonly Placeholder[];
  /**
   * In a plan for files, the missing paths below writable directories. No step protects them, so the file helper must refuse to create
   * them or anything below. Empty in a plan for a program.
   */
  readonly missing: readonly MissingPath[];
  /**
   * Changes when the same policy would give another plan, or when the same plan would mean other files. Covers the identity of every
   * mounted path.
   */
  readonly fingerprint: string;
  /** The input of the fingerprint. */
  readonly observed: ObservedFiles;
}

/** The path of a mount. */
export interface MountedPath {
  readonly path: NativePath;
  /**
   * The {@link FileFacts.identity} of the host's file that is mounted there. Null when it is not a file of the host, or a placeholder that
   * does not exist yet.
   */
  readonly identity: string | null;
}

/** What to probe to find out whether a plan still holds. */
interface ObservedFiles {
  readonly paths: readonly NativePath[];
  readonly globs: readonly DenyGlob[];
}
