import type { FileSystem } from '../files/file-system.ts';
import { LOCAL_FILE_SYSTEM } from '../files/local/local-file-system.ts';
import { pageCacheFileSystem } from '../files/page-cache-file-system.ts';
import { LazyFileThreads, threadedFileSystem } from '../files/threaded-file-system.ts';
import { lazyCachedCalls } from '../native/lazy-cached-calls.ts';
import type { SandboxCalls } from '../process/spawn/spawner.ts';
import { BusyPoll } from './busy-poll.ts';
import type { ExecServerConfig } from './config/config.ts';

/**
 * The fast paths of a server. A fast path gives the same answer as the ordinary code, sooner. The setting `fastPaths` switches all of
 * them off. docs/performance.md has what each gives.
 *
 * | fast path | what it does | code |
 * |---|---|---|
 * | busy poll | the event loop does not sleep between the requests of a fast client | busy-poll.ts |
 * | page cache | the event loop opens and reads cached files itself; sandbox plans check cached files the same way | page-cache-file-system.ts, cached-calls.ts |
 * | file threads | large walks and small files are done by threads with blocking calls | threaded-file-system.ts, file-threads.ts |
 * | shared write slot | the event loop hands a small write to a file thread in shared memory and waits for it briefly | shared-write-slot.ts |
 * | sandbox pool | the next sandbox for a policy is built before it is needed | sandbox-pool.ts |
 */
export interface FastPaths {
  /** The files of this machine. */
  readonly files: FileSystem;
  /** Opens a path if the kernel has it in its caches. Null otherwise. */
  readonly openCached: SandboxCalls['openCached'];
  /** Whether sandboxes are built before they are needed. */
  readonly prebuildSandboxes: boolean;
  readonly busyPoll: BusyPoll | null;
  /** Loads the native code of the busy poll. Call it when native code is known to work, after the first response. */
  prepare(): Promise<void>;
}

/** The fast paths that the configuration allows. Busy polling for a client in this process would only delay that client. */
export function fastPathsFor(
  { fastPaths, nativeSpawn }: Pick<ExecServerConfig, 'fastPaths' | 'nativeSpawn'>,
  { inProcess }: { readonly inProcess: boolean },
): FastPaths {
  if (!fastPaths) return NO_FAST_PATHS;
  return {
    files: nativeSpawn ? CACHED_FILES : THREADED_FILES,
    openCached,
    prebuildSandboxes: true,
    busyPoll: inProcess ? null : BUSY_POLL,
    prepare: inProcess ? async () => {} : enableBusyPoll,
  };
}

// One of each per process, because the servers of a process share its event loop, its CPUs and its memory. A server has only those
// that fastPathsFor gives it.
const BUSY_POLL = new BusyPoll();
const cachedCalls = lazyCachedCalls();
const THREADED_FILES = threadedFileSystem(new LazyFileThreads());
const CACHED_FILES = pageCacheFileSystem(THREADED_FILES, cachedCalls);

const NO_FAST_PATHS: FastPaths = {
  // The thread that hashes is no fast path: without it a large file would take the time of the event loop.
  files: { ...LOCAL_FILE_SYSTEM, hash: THREADED_FILES.hash },
  openCached: () => null,
  prebuildSandboxes: false,
  busyPoll: null,
  prepare: async () => {},
};

const openCached: SandboxCalls['openCached'] = (path, links) => cachedCalls()?.openPath(path, links) ?? null;

async function enableBusyPoll(): Promise<void> {
  const { loadYieldCpu } = await import('../native/yield-cpu.ts');
  BUSY_POLL.enable(loadYieldCpu());
}
