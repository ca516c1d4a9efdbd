import { isMainThread } from 'node:worker_threads';
import type { Libc } from '../../native/libc.ts';
import { nativeUnavailableReason } from '../../native/native-support.ts';
import { forbidCoreDumps } from '../tree/process-tagger.ts';
import { NativeSpawner } from './native-spawner.ts';
import { NodeSpawner } from './node-spawner.ts';
import type { SandboxCalls, Spawner } from './spawner.ts';

/** How programs are started. */
export interface SpawnerOptions {
  /** Whether to start programs through libc, where possible. Default true. */
  readonly native?: boolean;
  /** Whether to hide the memory of this process from the programs that it starts, where the system supports it. */
  readonly protectServer?: boolean;
  /** See {@link SandboxCalls.openCached}. Default: no cached calls. */
  readonly openCached?: SandboxCalls['openCached'];
}

/**
 * Creates the best spawner for this system: through libc on Linux, otherwise through child_process, which has no terminals. Loads
 * the native library, which takes about 20 ms, so call it after time-critical work.
 */
export async function createSpawner(options: SpawnerOptions = {}): Promise<Spawner> {
  const unavailableReason = nativeUnavailableReason(options.native ?? true) ?? threadUnavailableReason();
  if (unavailableReason !== null) return new NodeSpawner(unavailableReason);
  try {
    const { loadLibc } = await import('../../native/libc.ts');
    const libc = loadLibc();
    if (options.protectServer) protectServer(libc);
    return new NativeSpawner(libc, undefined, options.openCached);
  } catch (error) {
    // Node adds lines about the importing files to the message.
    const [cause] = (error instanceof Error ? error.message : String(error)).split('\n', 1);
    return new NodeSpawner(`terminals are not available: the native library could not be loaded (${cause})`);
  }
}

/** Called before the first program runs. Keeps programs from reading this process and from writing its memory to a core file. */
function protectServer(libc: Libc): void {
  libc.protectMemory();
  forbidCoreDumps(libc);
}

/** Node delivers SIGCHLD to the main thread only. */
function threadUnavailableReason(): string | null {
  return isMainThread ? null : 'terminals are not supported in a worker thread';
}
