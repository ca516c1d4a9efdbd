import type { NativePath } from '../../files/native-path.ts';

/**
 * One step in building the file tree of a sandbox. Paths are those inside, which are the same outside. Steps are performed in order;
 * a later one lies over an earlier one.
 */
export type MountStep =
  | { readonly kind: 'bind'; readonly path: NativePath; readonly writable: boolean }
  /** An empty directory that cannot be written to; `mode` says whether it can be listed (0o555), passed through (0o111) or neither (0). */
  | { readonly kind: 'emptyDirectory'; readonly path: NativePath; readonly mode: number; readonly within: readonly NativePath[] }
  /** An empty file that cannot be written to. */
  | { readonly kind: 'emptyFile'; readonly path: NativePath; readonly mode: number }
  /** A fresh root directory that is empty. */
  | { readonly kind: 'emptyRoot' }
  /** The device files that every program may use. */
  | { readonly kind: 'devices'; readonly sharedMemory: 'private' | 'host' };

/** Something that must exist on the host while a sandbox runs, because a mount needs a place; it is removed afterwards. */
export interface Placeholder {
  readonly path: NativePath;
  readonly kind: 'directory' | 'file';
}

/** The file tree of a sandbox. */
export interface MountPlan {
  readonly steps: readonly MountStep[];
  /** What is missing on the host and has to be made before the steps can be performed. */
  readonly placeholders: readonly Placeholder[];
  /**
   * Changes whenever the same policy would give another plan, or the same plan would mean other files: it covers the identity of
   * every path that is mounted.
   */
  readonly fingerprint: string;
}
