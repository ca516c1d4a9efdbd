import { Worker } from 'node:worker_threads';
import { FileError } from './errors.ts';
import { SEARCH_THREAD_HEAP_MB } from './limits.ts';
import type { ThreadJob } from './search/thread-messages.ts';

/**
 * Starts a thread that searches. Its program is `program`, or a file of the built package, also when this module runs from source or
 * from the bundle. This module is in this folder because the relative path to that file is the same from `src/files`, `dist/files`
 * and `dist/bin`.
 */
export function startSearchThread(job: ThreadJob, program: string | null): Worker {
  return new Worker(program ?? packageProgram(), {
    workerData: job,
    env: {},
    execArgv: [],
    resourceLimits: { maxOldGenerationSizeMb: SEARCH_THREAD_HEAP_MB },
  });
}

function packageProgram(): URL {
  try {
    return new URL('../../dist/bin/file-search-thread.cjs', import.meta.url);
  } catch {
    // A bundle that is not a module has no URL.
    throw new FileError(
      'failed',
      "search failed: its program cannot be found; set helperDirectory to the directory of the package's helpers",
    );
  }
}
