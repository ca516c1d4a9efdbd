import { fileURLToPath } from 'node:url';

/** The files of the built package that a helper runs. */
export interface HelperProgram {
  readonly main: string;
  /** What a search runs in a thread of its own. */
  readonly searchThread: string;
}

/**
 * The helper's program is two files of the built package, however this module is run: as a source, as a built module, or as part of
 * the bundle. This module stands here because the way to those files is the same from `src/sandbox`, `dist/sandbox` and `dist/bin`.
 */
export function builtHelperProgram(): HelperProgram {
  return {
    main: fileURLToPath(new URL('../../dist/bin/file-helper.cjs', import.meta.url)),
    searchThread: fileURLToPath(new URL('../../dist/bin/file-search-thread.cjs', import.meta.url)),
  };
}
