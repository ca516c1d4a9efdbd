import { access, constants } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { embeddedFiles } from '../base/embedded-files.ts';
import { unenforceable } from './errors.ts';

/** The files that a file helper runs. They need no other file of the package. */
export interface HelperProgram {
  readonly main: string;
  /** The program of the search worker thread. */
  readonly searchThread: string;
}

/**
 * Finds the two files in the built package, whether this module runs as source, as a built module, or in the bundle. It is in this
 * directory because the relative path is the same from `src/sandbox`, `dist/sandbox` and `dist/bin`. `directory` replaces that of the
 * package; empty for none.
 */
export function helperProgram(directory = ''): HelperProgram {
  const folder = directory === '' ? packageDirectory() : directory;
  return { main: join(folder, HELPER_FILES.main), searchThread: join(folder, HELPER_FILES.searchThread) };
}

function packageDirectory(): string {
  try {
    return fileURLToPath(new URL('../../dist/bin', import.meta.url));
  } catch {
    // A bundle that is not a module has no URL.
    throw unenforceable(`the file helper of sandboxed file operations cannot be found; ${ADVICE}`);
  }
}

/** The names of the files in their directory. */
const HELPER_FILES: HelperProgram = { main: 'file-helper.cjs', searchThread: 'file-search-thread.cjs' };

const ADVICE = `set helperDirectory (--helper-directory) to a directory with ${HELPER_FILES.main} and ${HELPER_FILES.searchThread} of this package's dist/bin`;

/**
 * Rejects with SandboxError when a file is missing, for example because the server was bundled without it. The single executable needs
 * none of them.
 */
export async function requireHelperProgram({ main, searchThread }: HelperProgram): Promise<void> {
  if (embeddedFiles !== null) return;
  for (const file of [main, searchThread]) {
    await access(file, constants.R_OK).catch((error: NodeJS.ErrnoException) => {
      throw unenforceable(
        `the file helper of sandboxed file operations cannot be read: ${file} (${error.code}); ${ADVICE}`,
      );
    });
  }
}
