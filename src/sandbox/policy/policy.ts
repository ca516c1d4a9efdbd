import type { NativePath } from '../../files/native-path.ts';

/** What may be done with a path and everything below it. */
export type Access = 'deny' | 'read' | 'write';

/** The access that holds from `path` downwards, until a longer entry says otherwise. */
export interface PolicyEntry {
  readonly path: NativePath;
  readonly access: Access;
  /**
   * Whether the policy did not name the path but protects it because of its name (`.git` and the like below a writable root). Such a
   * path is kept from being made where it does not exist.
   */
  readonly byName: boolean;
}

/** Who may do what with files. A path that no entry covers has the access `base`. */
export interface DiskPolicy {
  readonly base: Access;
  /** Whether the directories that programs need to run are readable all the same. */
  readonly platform: boolean;
  /** Each path once, sorted by bytes, so that what contains comes before what is contained. */
  readonly entries: readonly PolicyEntry[];
  /** Absolute patterns of files that are denied; they are looked for when a program is started. */
  readonly denyGlobs: readonly NativePath[];
  /** How many directories deep the patterns are looked for; null is no limit of the policy's own. */
  readonly globDepth: number | null;
}

/** A confinement in one normal form, whatever form it was asked for in. Equal confinements have equal keys ({@link policyKey}). */
export interface SandboxPolicy {
  /** `unrestricted` is every file, readable and writable. */
  readonly disk: DiskPolicy | 'unrestricted';
  readonly network: 'restricted' | 'enabled';
}
