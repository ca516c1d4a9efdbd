import { Worker } from 'node:worker_threads';
import { SEARCH_THREAD_HEAP_MB } from './limits.ts';
import type { ThreadJob } from './search/thread-messages.ts';

/**
 * Starts a thread that searches. Its program is always a file of the built package, also when this module runs from source or from
 * the bundle. This module is in this folder because the relative path to that file is the same from `src/files`, `dist/files` and
 * `dist/bin`.
 */
export function startSearchThread(job: ThreadJob): Worker {
  return new Worker(new URL('../../dist/files/search/worker.js', import.meta.url), {
    workerData: job,
    env: {},
    execArgv: [],
    resourceLimits: { maxOldGenerationSizeMb: SEARCH_THREAD_HEAP_MB },
  });
}
