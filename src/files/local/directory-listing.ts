import {
  type Dir,
  type Dirent,
  readdirSync,
  readdir as readdirWithCallback,
  type Stats,
  statSync,
  stat as statWithCallback,
} from 'node:fs';
import { lstat, opendir, readdir, stat } from 'node:fs/promises';
import { forEachBounded } from '../../base/for-each-bounded.ts';
import { DIRECTORY_BATCH_ENTRIES, SMALL_DIRECTORY_BYTES, TREE_CALL_CONCURRENCY } from '../limits.ts';
import { childPath, type NativePath, systemPath } from '../native-path.ts';

/** An entry with the type that its directory reports. `name` holds bytes. A link is neither a file nor a directory. */
export interface ListedEntry {
  readonly name: string;
  isFile(): boolean;
  isDirectory(): boolean;
  isSymbolicLink(): boolean;
}

/** The entries of a directory in batches, unordered. A batch is small enough for the event loop, and only one is in memory. */
export async function* directoryBatches(path: NativePath): AsyncGenerator<ListedEntry[], void> {
  const all = await readSmallDirectory(path);
  if (all !== null) yield all;
  else yield* readInBatches(path);
}

/**
 * All entries of a directory, or null if it may have too many for one call. Nearly every file system uses at least ten bytes per
 * entry. A file system that reports no size, or the number of entries as the size, counts as small for longer.
 */
export function readSmallDirectory(path: NativePath): Promise<ListedEntry[] | null> {
  const target = systemPath(path);
  // Callbacks, because a walk calls this for every directory and promises take a third longer.
  return new Promise((resolve, reject) => {
    statWithCallback(target, (error, stats) => {
      if (error !== null) reject(error);
      else if (stats.size > SMALL_DIRECTORY_BYTES) resolve(null);
      else {
        readdirWithCallback(target, { withFileTypes: true, encoding: 'latin1' }, (failure, entries) => {
          resolve(failure === null ? entries : readNames(path));
        });
      }
    });
  });
}

/** Like {@link readSmallDirectory}, but blocks. Only a file thread may call it. */
export function readSmallDirectorySync(path: NativePath): ListedEntry[] | null | Promise<ListedEntry[]> {
  const target = systemPath(path);
  if (statSync(target).size > SMALL_DIRECTORY_BYTES) return null;
  try {
    return readdirSync(target, { withFileTypes: true, encoding: 'latin1' });
  } catch {
    return readNames(path);
  }
}

/**
 * Replaces every link by its target: `isSymbolicLink` stays true, and the type is that of the target. Dangling links are omitted.
 */
export async function resolveLinks(path: NativePath, entries: ListedEntry[]): Promise<ListedEntry[]> {
  const links = entries.filter((entry) => entry.isSymbolicLink());
  if (links.length === 0) return entries;
  const targets = await statEach(path, links, stat);
  return entries.flatMap((entry) => {
    if (!entry.isSymbolicLink()) return [entry];
    const target = targets.get(entry.name);
    return target === undefined ? [] : [new ResolvedLink(entry.name, target)];
  });
}

class ResolvedLink implements ListedEntry {
  readonly name: string;
  readonly #target: Stats;

  constructor(name: string, target: Stats) {
    this.name = name;
    this.#target = target;
  }

  isFile(): boolean {
    return this.#target.isFile();
  }

  isDirectory(): boolean {
    return this.#target.isDirectory();
  }

  isSymbolicLink(): boolean {
    return true;
  }
}

/**
 * Where the file system reports no types, Node stats each entry, but misses names that are not ASCII and fails when an entry has
 * just been removed. Reading only the names works there too, and reports the error when the directory cannot be read at all.
 */
async function readNames(path: NativePath): Promise<ListedEntry[]> {
  const names = await readdir(systemPath(path), { encoding: 'latin1' });
  const found = await statEach(
    path,
    names.map((name) => ({ name })),
    lstat,
  );
  return Array.from(found, ([name, stats]) => Object.assign(stats, { name }));
}

async function* readInBatches(path: NativePath): AsyncGenerator<Dirent[], void> {
  const directory = await opendir(systemPath(path), {
    encoding: 'latin1',
    bufferSize: DIRECTORY_BATCH_ENTRIES,
  });
  try {
    for (;;) {
      const batch = await readBatch(directory);
      if (batch.length > 0) yield batch;
      if (batch.length < DIRECTORY_BATCH_ENTRIES) return;
    }
  } finally {
    await directory.close();
  }
}

/** Callbacks, because a promise for each entry takes twice as long. */
function readBatch(directory: Dir): Promise<Dirent[]> {
  const batch: Dirent[] = [];
  return new Promise((resolve, reject) => {
    const take = (error: Error | null, entry: Dirent | null): void => {
      if (entry) batch.push(entry);
      if (error !== null) reject(error);
      else if (entry === null || batch.length === DIRECTORY_BATCH_ENTRIES) resolve(batch);
      else directory.read(take);
    };
    directory.read(take);
  });
}

/** The results of `ask` by name. Entries for which it fails are omitted. */
async function statEach(
  path: NativePath,
  entries: readonly { readonly name: string }[],
  ask: (path: string | Buffer) => Promise<Stats>,
): Promise<Map<string, Stats>> {
  const found = new Map<string, Stats>();
  await forEachBounded(entries, TREE_CALL_CONCURRENCY, async ({ name }) => {
    const stats = await ask(systemPath(childPath(path, name))).catch(() => null);
    if (stats !== null) found.set(name, stats);
  });
  return found;
}
