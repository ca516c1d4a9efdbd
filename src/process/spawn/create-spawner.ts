import { isMainThread } from 'node:worker_threads';
import type { Libc } from '../../native/libc.ts';
import { nativeUnavailableReason } from '../../native/native-support.ts';
import { forbidCoreDumps } from '../tree/process-tagger.ts';
import { NativeSpawner } from './native-spawner.ts';
import { NodeSpawner } from './node-spawner.ts';
import type { Spawner } from './spawner.ts';

/**
 * The best spawner this system allows: through libc on Linux, else through child_process, which has no terminals. Loads the native
 * library (about 20 ms), so call it after whatever must be quick.
 */
export async function createSpawner(
  options: { native?: boolean; protectServer?: boolean } = {},
): Promise<Spawner> {
  const obstacle = nativeUnavailableReason(options.native ?? true) ?? obstacleInThread();
  if (obstacle !== null) return new NodeSpawner(obstacle);
  try {
    const { loadLibc } = await import('../../native/libc.ts');
    const libc = loadLibc();
    if (options.protectServer) protectServer(libc);
    return new NativeSpawner(libc);
  } catch (error) {
    const cause = error instanceof Error ? error.message : String(error);
    return new NodeSpawner(`terminals are not available: the native library could not be loaded (${cause})`);
  }
}

/** Before the first program runs: none of them may read this process or have its memory written to a core file. */
function protectServer(libc: Libc): void {
  libc.protectMemory();
  forbidCoreDumps(libc);
}

/** Only the main thread hears of SIGCHLD. */
function obstacleInThread(): string | null {
  return isMainThread ? null : 'terminals are not supported in a worker thread';
}
