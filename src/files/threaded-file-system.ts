import { isMainThread } from 'node:worker_threads';
import { uptimeMs } from '../base/uptime.ts';
import type { FileSystem } from './file-system.ts';
import type { FileThreads } from './file-threads.ts';
import { HASH_THREAD } from './hash-thread.ts';
import {
  LARGE_WALK_ENTRIES,
  MANY_SMALL_FILES,
  MANY_SMALL_FILES_MS,
  SMALL_FILE_BYTES,
  SMALL_WRITE_BYTES,
} from './limits.ts';
import { type HasherSource, hashFile } from './local/hash-file.ts';
import { LOCAL_FILE_SYSTEM } from './local/local-file-system.ts';
import { contentOf, ReadContent } from './local/read-file.ts';
import { writeOpened } from './local/write-file.ts';
import { walkOnThreads } from './thread/parallel-walk.ts';

/** The threads, once they are started. */
interface ThreadSource {
  readonly threads: FileThreads | null;
  /** Starts the threads. */
  prepare(): void;
}

/**
 * The local files for a server. A thread hashes large files. Large walks and small files move to blocking threads once there are many
 * of them, because they take many system calls. Operations that do not follow links use other system calls and stay on the ordinary path.
 */
export function threadedFileSystem(source: ThreadSource, hashThread: HasherSource = HASH_THREAD): FileSystem {
  const smallFileRate = new SmallFileRate(() => source.prepare());
  return {
    ...LOCAL_FILE_SYSTEM,

    readFile: async (path, options) => {
      const opened = options.followSymlinks ? await source.threads?.run({ kind: 'read', path }) : null;
      if (!opened) {
        const content = await LOCAL_FILE_SYSTEM.readFile(path, options);
        if (options.followSymlinks && content.size <= SMALL_FILE_BYTES) smallFileRate.note();
        return content;
      }
      const head = opened.head === null ? null : Buffer.from(opened.head, 'latin1');
      return opened.fd === null ? new ReadContent(head!) : await contentOf(opened.fd, opened.size, head);
    },

    writeFile: async (path, bytes, options, waiting) => {
      if (!options.followSymlinks || bytes.length > SMALL_WRITE_BYTES) {
        return await LOCAL_FILE_SYSTEM.writeFile(path, bytes, options, waiting);
      }
      smallFileRate.note();
      const outcome = await source.threads?.write({ path, bytes });
      if (typeof outcome === 'number') await writeOpened(outcome, bytes, waiting);
      else if (outcome !== 'written') await LOCAL_FILE_SYSTEM.writeFile(path, bytes, options, waiting);
    },

    hash: (path, options, signal) => hashFile(path, options, signal, hashThread),

    walk: async (path, options, signal) => {
      const { followSymlinks = true, ...job } = options;
      const { threads } = source;
      const walked = followSymlinks && threads ? await walkOnThreads(threads, path, job, signal) : null;
      if (walked !== null) return walked;
      const result = await LOCAL_FILE_SYSTEM.walk(path, options, signal);
      if (followSymlinks && result.entries.length >= LARGE_WALK_ENTRIES) source.prepare();
      return result;
    },
  };
}

/** Detects many small files in a short time. */
class SmallFileRate {
  readonly #onMany: () => void;
  #count = 0;
  #sinceMs = 0;

  constructor(onMany: () => void) {
    this.#onMany = onMany;
  }

  note(): void {
    if (this.#count === 0) this.#sinceMs = uptimeMs();
    if (++this.#count < MANY_SMALL_FILES) return;
    this.#count = 0;
    if (uptimeMs() - this.#sinceMs < MANY_SMALL_FILES_MS) this.#onMany();
  }
}

/** File threads whose code is loaded on first use. */
export class LazyFileThreads implements ThreadSource {
  threads: FileThreads | null = null;

  /** In a worker thread Node keeps a list of its descriptors, which those of other threads would falsify. */
  prepare(): void {
    if (isMainThread) void this.#load();
  }

  async #load(): Promise<void> {
    const { FileThreads } = await import('./file-threads.ts');
    this.threads ??= new FileThreads();
    this.threads.prepare();
  }
}
