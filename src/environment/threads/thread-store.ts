import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { link, open, readdir, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { randomHex } from '../../base/random-hex.ts';
import { ClientError } from '../../client/errors.ts';
import type { SelectedCapabilityRoot } from '../capability-roots/selected-root.ts';
import {
  type ForkOptions,
  forkThread,
  restoreSelection,
  type SelectionMetadata,
  selectionMetadata,
} from '../capability-roots/thread-record.ts';
import { MAX_THREAD_BYTES, UNFINISHED_THREAD_MS } from '../limits.ts';
import { createFolder } from './create-folder.ts';
import { encodeRecord, readThreadFile, type ThreadRecord } from './thread-file.ts';
import { fileError, ThreadLog, threadName } from './thread-log.ts';

/** The content of a new thread. */
export interface NewThread {
  /** The selected capability roots. Default: none. */
  readonly roots?: readonly SelectedCapabilityRoot[];
  /** Other members of the first record. */
  readonly metadata?: ThreadRecord;
}

/** A fork, and its own metadata in addition to the inherited selection. */
export interface ThreadForkOptions extends ForkOptions {
  readonly metadata?: ThreadRecord;
}

/**
 * Stores threads in a folder, one file for each: the first record has the selected capability roots, each further one is a turn. A
 * thread is created completely or not at all. Every string is a thread id; file names are derived from a hash of it.
 */
export class ThreadStore {
  readonly #folder: string;

  private constructor(folder: string) {
    this.#folder = folder;
  }

  /** Opens the folder, and creates it if necessary. Removes the files of threads whose creation was interrupted. */
  static async open(folder: string): Promise<ThreadStore> {
    try {
      await createFolder(folder, 0o700);
      await removeUnfinished(folder);
    } catch (error) {
      throw fileError(`the thread store ${folder} cannot be opened`, error);
    }
    return new ThreadStore(folder);
  }

  /** Creates a thread. Throws ClientError `conflict` when it exists. */
  async create(threadId: string, { roots = [], metadata = {} }: NewThread = {}): Promise<ThreadLog> {
    return this.#write(threadId, metadata, selectionMetadata(roots), []);
  }

  /**
   * Opens a thread to continue it. Its selection is empty when a version without selections created it. Throws ClientError
   * `notFound` when it does not exist, and `invalidData` when its first record is damaged.
   */
  async resume(threadId: string): Promise<ThreadLog> {
    const path = this.#pathOf(threadId);
    try {
      const { first, turns, damage, end } = await readThreadFile(path);
      const { [ID]: storedId, ...metadata } = first;
      if (storedId !== threadId) {
        throw new ClientError('invalidData', 'its first record names another thread');
      }
      const roots = restoreSelection(metadata);
      return new ThreadLog({ id: threadId, path, metadata, roots, turns, damage }, end);
    } catch (error) {
      const what = `${threadName(threadId)} cannot be read`;
      if (!(error instanceof ClientError)) throw fileError(what, error);
      throw new ClientError('invalidData', `${what}: ${error.message}`, { cause: error });
    }
  }

  /**
   * Creates a thread that continues another one. It inherits the selection from the first record, whatever number of turns it
   * takes over. Damaged records are not copied.
   */
  async fork(
    parentId: string,
    threadId: string,
    { metadata = {}, ...options }: ThreadForkOptions = {},
  ): Promise<ThreadLog> {
    const parent = await this.resume(parentId);
    const fork = forkThread(parent, options);
    return this.#write(threadId, metadata, fork.metadata, fork.turns);
  }

  /** Removes a thread. Resolves with whether it existed. */
  async remove(threadId: string): Promise<boolean> {
    try {
      await rm(this.#pathOf(threadId));
      return true;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
      throw fileError(`${threadName(threadId)} cannot be removed`, error);
    }
  }

  /** Writes a complete file under a temporary name, and then gives it its own name if no thread has it. */
  async #write(
    threadId: string,
    metadata: ThreadRecord,
    selection: SelectionMetadata,
    turns: readonly ThreadRecord[],
  ): Promise<ThreadLog> {
    const path = this.#pathOf(threadId);
    const reserved = RESERVED.find((key) => Object.hasOwn(metadata, key));
    if (reserved !== undefined) {
      throw new ClientError('invalidInput', `the metadata of a thread cannot have the member '${reserved}'`);
    }
    const lines = [{ [ID]: threadId, ...metadata, ...selection }, ...turns].map(encodeRecord);
    const size = lines.reduce((sum, line) => sum + line.length, 0);
    if (size > MAX_THREAD_BYTES) {
      throw new ClientError('invalidInput', `${threadName(threadId)} would have ${size} bytes`, {
        hint: `a thread has at most ${MAX_THREAD_BYTES}; fork it with fewer turns`,
      });
    }
    const unfinished = join(this.#folder, `${randomHex()}${UNFINISHED}`);
    try {
      await writeDurably(unfinished, lines);
      await link(unfinished, path);
      await syncFolder(this.#folder);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EEXIST') {
        throw new ClientError('conflict', `${threadName(threadId)} exists`, {
          hint: 'resume it, or choose another id',
        });
      }
      throw fileError(`${threadName(threadId)} cannot be created`, error);
    } finally {
      await rm(unfinished, { force: true });
    }
    return this.resume(threadId);
  }

  /** JSON spells every string differently, also those that UTF-8 cannot encode. */
  #pathOf(threadId: string): string {
    if (typeof threadId !== 'string') {
      throw new ClientError('invalidInput', `a thread id is a ${typeof threadId}, not a string`);
    }
    const hash = createHash('sha256').update(JSON.stringify(threadId)).digest('hex');
    return join(this.#folder, `${hash}.jsonl`);
  }
}

/** The member of the first record with the thread id. */
const ID = 'thread_id';
const RESERVED = [ID, 'selected_capability_roots'];

const UNFINISHED = '.unfinished';

async function writeDurably(path: string, lines: readonly Buffer[]): Promise<void> {
  const { O_CREAT, O_EXCL, O_WRONLY } = constants;
  const file = await open(path, O_WRONLY | O_CREAT | O_EXCL, 0o600);
  try {
    for (const line of lines) await file.appendFile(line);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** Makes the new name durable. */
async function syncFolder(folder: string): Promise<void> {
  const handle = await open(folder, constants.O_RDONLY | constants.O_DIRECTORY);
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

async function removeUnfinished(folder: string): Promise<void> {
  for (const name of await readdir(folder)) {
    if (!name.endsWith(UNFINISHED)) continue;
    const path = join(folder, name);
    // Another process may be creating a thread, or may have just finished.
    const { mtimeMs } = await stat(path).catch(() => ({ mtimeMs: Number.POSITIVE_INFINITY }));
    if (Date.now() - mtimeMs > UNFINISHED_THREAD_MS) await rm(path, { force: true });
  }
}
