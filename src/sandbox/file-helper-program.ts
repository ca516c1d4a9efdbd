import { fileURLToPath } from 'node:url';

/** The files of the built package that a file helper runs. */
export interface HelperProgram {
  readonly main: string;
  /** The program of the search worker thread. */
  readonly searchThread: string;
}

/**
 * Finds the two files in the built package, whether this module runs as source, as a built module, or in the bundle. It is in this
 * directory because the relative path is the same from `src/sandbox`, `dist/sandbox` and `dist/bin`.
 */
export function builtHelperProgram(): HelperProgram {
  return {
    main: fileURLToPath(new URL('../../dist/bin/file-helper.cjs', import.meta.url)),
    searchThread: fileURLToPath(new URL('../../dist/bin/file-search-thread.cjs', import.meta.url)),
  };
}
