import { stat } from 'node:fs';

/** Threads for file operations. Each call on a dead mount holds one until the mount answers; one connection can hold 30. */
const THREADS = 32;

/**
 * Gives file operations more threads than libuv's four. The number is read from the environment when the pool is first used, which is
 * here; after that the variable is gone again, because what this program starts has no use for it. A number that was set stays.
 */
export function growThreadPool(): void {
  if (process.env.UV_THREADPOOL_SIZE !== undefined) return;
  process.env.UV_THREADPOOL_SIZE = String(THREADS);
  stat('/', () => {});
  delete process.env.UV_THREADPOOL_SIZE;
}
