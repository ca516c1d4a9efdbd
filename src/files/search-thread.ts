import { Worker } from 'node:worker_threads';
import { SEARCH_THREAD_HEAP_MB } from './limits.ts';
import type { ThreadJob } from './search/thread-messages.ts';

/**
 * Starts a thread that searches. Its program is a file of the built package, however this module is run: as a source, as a built
 * module, or as part of the bundle. This module stands here because the way to that file is the same from `src/files`, `dist/files`
 * and `dist/bin`.
 */
export function startSearchThread(job: ThreadJob): Worker {
  return new Worker(new URL('../../dist/files/search/worker.js', import.meta.url), {
    workerData: job,
    env: {},
    execArgv: [],
    resourceLimits: { maxOldGenerationSizeMb: SEARCH_THREAD_HEAP_MB },
  });
}
