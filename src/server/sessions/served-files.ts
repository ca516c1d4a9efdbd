import { type CachedCallSource, cachedFileSystem } from '../../files/cached-file-system.ts';
import type { FileSystem } from '../../files/file-system.ts';
import { SERVED_FILE_SYSTEM } from '../../files/threaded-file-system.ts';
import type { CachedCalls } from '../../native/cached-calls.ts';
import { obstacleToNative } from '../../native/obstacles.ts';

/** The files of this machine for all connections of a server; `native` allows calls that Node does not offer. */
export function servedFiles(native: boolean): FileSystem {
  return native ? CACHED_FILE_SYSTEM : SERVED_FILE_SYSTEM;
}

/** The calls of this process, loaded when a file is first read or looked at. Where they cannot be had, that is found out once. */
class NativeCachedCalls implements CachedCallSource {
  calls: CachedCalls | null = null;
  #isAsked = false;

  prepare(): void {
    if (this.#isAsked) return;
    this.#isAsked = true;
    this.#load().catch(() => {});
  }

  async #load(): Promise<void> {
    if (obstacleToNative(true) !== null) return;
    const { loadCachedCalls } = await import('../../native/cached-calls.ts');
    this.calls = await loadCachedCalls();
  }
}

const CACHED_FILE_SYSTEM = cachedFileSystem(SERVED_FILE_SYSTEM, new NativeCachedCalls());
