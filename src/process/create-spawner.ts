import { isMainThread } from 'node:worker_threads';
import { NativeSpawner } from './native-spawner.ts';
import { NodeSpawner } from './node-spawner.ts';
import type { Spawner } from './spawner.ts';

/**
 * The best spawner this system allows: through libc on Linux, else through child_process, which has no terminals. Loads the native
 * library (about 20 ms), so call it after whatever must be quick.
 */
export async function createSpawner(options: { native?: boolean } = {}): Promise<Spawner> {
  if (options.native === false) return new NodeSpawner('terminals are switched off (nativeSpawn is false)');
  if (process.platform !== 'linux')
    return new NodeSpawner(`terminals are not supported on ${process.platform}`);
  if (!isMainThread) return new NodeSpawner('terminals are not supported in a worker thread');
  try {
    const { loadLibc } = await import('./native/libc.ts');
    return new NativeSpawner(loadLibc());
  } catch (error) {
    const cause = error instanceof Error ? error.message : String(error);
    return new NodeSpawner(`terminals are not available: the native library could not be loaded (${cause})`);
  }
}
