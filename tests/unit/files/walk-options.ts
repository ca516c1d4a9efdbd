import type { WalkOptions } from '../../../src/files/file-system.ts';

/** Options of a walk without restrictions. */
export const EVERYTHING: WalkOptions = {
  maxDepth: 64,
  maxDirectories: 10_000,
  maxEntries: 50_000,
  followDirectorySymlinks: false,
  pruneHiddenDirectories: false,
};
