import { stat } from 'node:fs';

/** Threads for file operations. Each call on a dead mount holds one until the mount answers; one connection can hold 44. */
const THREADS = 48;

/**
 * Asks for more threads for file operations than libuv's four; a number that was set stays. The pool reads it from the environment
 * when it is first used, which {@link startThreadPool} does: making the threads takes milliseconds that a start need not wait for.
 */
export function planThreadPool(env: NodeJS.ProcessEnv): void {
  env.UV_THREADPOOL_SIZE ??= String(THREADS);
}

/** Makes the threads, and takes the number away again unless somebody else set it: what this program starts has no use for it. */
export function startThreadPool(env: NodeJS.ProcessEnv): void {
  stat('/', () => {});
  if (env.UV_THREADPOOL_SIZE === String(THREADS)) delete env.UV_THREADPOOL_SIZE;
}
