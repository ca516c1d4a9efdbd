import type { FileSystem } from './file-system.ts';
import type { FileThreads } from './file-threads.ts';
import { LARGE_WALK_ENTRIES, MANY_SMALL_FILES, MANY_SMALL_FILES_MS, SMALL_FILE_BYTES } from './limits.ts';
import { LOCAL_FILE_SYSTEM } from './local/local-file-system.ts';
import { contentOf, ReadContent } from './local/read-file.ts';
import { writeOpened } from './local/write-file.ts';
import { EncodedWalk } from './thread/encoded-walk.ts';

/**
 * The local files for a server. What takes many calls to the system is done by threads of its own once there is more of it: large
 * walks, and small files. Where links are not followed it takes calls that are made differently, and goes the ordinary way.
 */
export const THREADED_FILE_SYSTEM: FileSystem = {
  ...LOCAL_FILE_SYSTEM,

  readFile: async (path, options) => {
    const opened = options.followSymlinks ? await threads?.run({ kind: 'read', path }) : null;
    if (!opened) {
      const content = await LOCAL_FILE_SYSTEM.readFile(path, options);
      if (content.size <= SMALL_FILE_BYTES) smallFiles.note();
      return content;
    }
    const { fd, size, head } = opened;
    const begin = head === null ? null : Buffer.from(head, 'latin1');
    return fd === null ? new ReadContent(begin!) : await contentOf(fd, size, begin);
  },

  writeFile: async (path, bytes, options, waiting) => {
    if (!options.followSymlinks || bytes.length > SMALL_FILE_BYTES) {
      return await LOCAL_FILE_SYSTEM.writeFile(path, bytes, options, waiting);
    }
    smallFiles.note();
    const outcome = await threads?.run({ kind: 'write', path, bytes: latin1(bytes) });
    if (typeof outcome === 'number') await writeOpened(outcome, bytes, waiting);
    else if (outcome !== 'written') await LOCAL_FILE_SYSTEM.writeFile(path, bytes, options, waiting);
  },

  walk: async (path, options, signal) => {
    const { followSymlinks = true, ...job } = options;
    const walked = followSymlinks ? await threads?.run({ kind: 'walk', path, options: job }, signal) : null;
    if (walked) return new EncodedWalk(Buffer.from(walked.text), walked.outcome);
    const result = await LOCAL_FILE_SYSTEM.walk(path, options, signal);
    if (followSymlinks && result.entries.length >= LARGE_WALK_ENTRIES) void prepareThreads();
    return result;
  },
};

let threads: FileThreads | null = null;

/** Threads are loaded when they are first wanted. */
async function prepareThreads(): Promise<void> {
  const { FileThreads } = await import('./file-threads.ts');
  threads ??= new FileThreads();
  threads.prepare();
}

/** Notices when small files come one after the other. */
class SmallFiles {
  #count = 0;
  #sinceMs = 0;

  note(): void {
    if (this.#count === 0) this.#sinceMs = process.uptime() * 1_000;
    if (++this.#count < MANY_SMALL_FILES) return;
    this.#count = 0;
    if (process.uptime() * 1_000 - this.#sinceMs < MANY_SMALL_FILES_MS) void prepareThreads();
  }
}

const smallFiles = new SmallFiles();

/** Bytes for a message to a thread; a string gets there in half the time. */
function latin1(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1');
}
