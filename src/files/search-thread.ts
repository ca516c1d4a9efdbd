import { Worker } from 'node:worker_threads';
import { threadProgram } from '../base/embedded-files.ts';
import { FileError } from './errors.ts';
import { SEARCH_THREAD_HEAP_MB } from './limits.ts';
import type { ThreadJob } from './search/thread-messages.ts';

/** Starts a thread that searches. Its program is `program`, or that of the package. */
export function startSearchThread(job: ThreadJob, program: string | null): Worker {
  const { program: code, ...how } = program === null ? packageProgram() : { program };
  return new Worker(code, {
    ...how,
    workerData: job,
    env: {},
    execArgv: [],
    resourceLimits: { maxOldGenerationSizeMb: SEARCH_THREAD_HEAP_MB },
  });
}

function packageProgram() {
  try {
    return threadProgram('bin/file-search-thread.cjs', import.meta.url);
  } catch {
    // A bundle that is not a module has no URL.
    throw new FileError(
      'failed',
      "search failed: its program cannot be found; set helperDirectory to the directory of the package's helpers",
    );
  }
}
