import { isMainThread } from 'node:worker_threads';
import { NativeSpawner } from './native-spawner.ts';
import { NodeSpawner } from './node-spawner.ts';
import type { Spawner } from './spawner.ts';

/**
 * The best spawner this system allows: through libc on Linux, else through child_process, which has no terminals. Loads the native
 * library (about 20 ms), so call it after whatever must be quick.
 */
export async function createSpawner(options: { native?: boolean } = {}): Promise<Spawner> {
  const obstacle = obstacleToNative(options.native ?? true);
  if (obstacle !== null) return new NodeSpawner(obstacle);
  try {
    const { loadLibc } = await import('./native/libc.ts');
    return new NativeSpawner(loadLibc());
  } catch (error) {
    const cause = error instanceof Error ? error.message : String(error);
    return new NodeSpawner(`terminals are not available: the native library could not be loaded (${cause})`);
  }
}

/** Where the constants and structures of native/libc.ts hold. */
const NATIVE_SYSTEMS = ['linux-x64', 'linux-arm64'];

/** Why native calls are out of the question here, or null. */
export function obstacleToNative(wanted: boolean): string | null {
  const system = `${process.platform}-${process.arch}`;
  if (!wanted) return 'terminals are switched off (nativeSpawn is false)';
  if (!NATIVE_SYSTEMS.includes(system)) return `terminals are not supported on ${system}`;
  // Only the main thread hears of SIGCHLD.
  return isMainThread ? null : 'terminals are not supported in a worker thread';
}
