import type { FileSystem } from '../../files/file-system.ts';
import { pageCacheFileSystem } from '../../files/page-cache-file-system.ts';
import { SERVED_FILE_SYSTEM } from '../../files/threaded-file-system.ts';
import { SHARED_CACHED_CALLS } from '../../native/shared-cached-calls.ts';

/** The files of this machine for all connections of a server; `native` allows calls that Node does not offer. */
export function servedFiles(native: boolean): FileSystem {
  return native ? CACHED_FILE_SYSTEM : SERVED_FILE_SYSTEM;
}

const CACHED_FILE_SYSTEM = pageCacheFileSystem(SERVED_FILE_SYSTEM, SHARED_CACHED_CALLS);
