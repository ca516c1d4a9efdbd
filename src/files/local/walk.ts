import { lstat, realpath, stat } from 'node:fs/promises';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { forEachBounded } from '../../base/for-each-bounded.ts';
import { FileError, refused, toFileError } from '../errors.ts';
import type { LinkOption, WalkEntry, WalkOptions, WalkResult } from '../file-system.ts';
import {
  TREE_CALL_CONCURRENCY,
  WALK_ENTRIES_PER_TURN,
  WALK_ITEM_BYTES,
  WALK_MAX_DEPTH,
  WALK_MAX_DIRECTORIES,
  WALK_MAX_ENTRIES,
  WALK_READ_AHEAD,
  WALK_RESPONSE_BYTES,
} from '../limits.ts';
import { childPath, isWithin, type NativePath, nativePathOfBytes, systemPath } from '../native-path.ts';
import { escapeBytes, uriFromPath } from '../path-uri.ts';
import {
  directoryBatches,
  type ListedEntry,
  readSmallDirectory,
  readSmallDirectorySync,
  resolveLinks,
} from './directory-listing.ts';
import { getMetadata } from './metadata.ts';
import { withDirectoryOpen } from './no-follow.ts';
import { FirstInOrder, inByteOrder } from './sorted-entries.ts';

/**
 * The files and directories below `path`, breadth first, the names of each directory in byte order. A limit that is reached cuts
 * the rest off and is no error; neither is a directory that cannot be read. Throws the signal's reason once it is aborted.
 */
export async function walk(
  path: NativePath,
  options: WalkOptions & Partial<LinkOption>,
  signal: AbortSignal,
): Promise<WalkResult> {
  checkWalkLimits(options);
  const entries: WalkEntry[] = [];
  const found: WalkFound = (directory, name, kind) => void entries.push({ uri: directory + name, kind });
  const means = { readSmall: readSmallDirectory, readAhead: WALK_READ_AHEAD, found, signal };
  const { errors, truncated } = await outcomeOf(new Walk(means, options, WHOLE_WALK).run(path));
  return { entries, errors, truncated };
}

/**
 * A walk, or a piece of one, for a thread that may hang and is ended when the walk is not wanted any more. It begins with one path, or
 * goes on with directories that another piece has left.
 */
export async function walkBlocking(
  start: WalkStart,
  options: WalkOptions,
  reach: WalkReach,
  found: WalkFound,
): Promise<WalkOutcome> {
  const { signal } = new AbortController();
  const walk = new Walk({ readSmall: readSmallDirectorySync, readAhead: 1, found, signal }, options, reach);
  return await outcomeOf('path' in start ? walk.run(start.path) : walk.goOn(start));
}

/** Hears of each entry as it is found. Its URI is in two pieces; the first is one string for all entries of a directory. */
export type WalkFound = (directory: string, name: string, kind: WalkEntry['kind']) => void;

/** What to walk: a path, or directories that are all at one depth, in their order. */
export type WalkStart = { readonly path: NativePath } | WalkRest;

export interface WalkRest {
  readonly directories: readonly NativePath[];
  readonly depth: number;
}

/** How far one piece of a walk goes, besides what the options say. */
export interface WalkReach {
  /** What is left of the room for entries and errors. */
  readonly responseBytes: number;
  /** It ends before a depth at which so many directories are to be read. */
  readonly stopsAt: number;
}

/** What there is to say about a walk besides its entries. */
export interface WalkOutcome extends Omit<WalkResult, 'entries'> {
  /** Where it stopped; null when it has ended. */
  readonly rest: WalkRest | null;
  readonly spent: WalkSpent;
}

/** What a walk or a piece of it has taken of its limits: entries that were looked at, directories that were found and may be entered. */
export interface WalkSpent {
  readonly entries: number;
  readonly directories: number;
  readonly responseBytes: number;
}

async function outcomeOf(walking: Promise<WalkOutcome>): Promise<WalkOutcome> {
  try {
    return await walking;
  } catch (error) {
    throw toFileError(error);
  }
}

/** How a walk gets at directories, how many it reads before it is their turn, and who hears of it. */
interface WalkMeans {
  /** One that answers at once is not waited for. */
  readonly readSmall: (path: NativePath) => ListedEntry[] | null | Promise<ListedEntry[] | null>;
  readonly readAhead: number;
  readonly found: WalkFound;
  readonly signal: AbortSignal;
}

const WHOLE_WALK: WalkReach = { responseBytes: WALK_RESPONSE_BYTES, stopsAt: Number.POSITIVE_INFINITY };

interface PendingDirectory {
  readonly path: NativePath;
  /** Without links; null where links are not followed and nothing can be met twice. */
  readonly realPath: NativePath | null;
  readonly depth: number;
  /** Never rejects: nobody waits for it when the walk ends early. */
  listing: Promise<Listing | Failure | 'large'> | null;
}

interface Listing {
  /** Sorted; links are resolved, and those that lead nowhere are left out. */
  readonly entries: readonly ListedEntry[];
  /** Where links to directories lead, by name; only those that may be entered. */
  readonly realPaths: ReadonlyMap<string, NativePath | Failure>;
}

interface Failure {
  readonly error: unknown;
}

class Walk {
  readonly #means: WalkMeans;
  readonly #reach: WalkReach;
  readonly #options: WalkOptions;
  /** Whether links are followed at all; if not, not even those to directories. */
  readonly #followsLinks: boolean;
  readonly #queue: PendingDirectory[] = [];
  /** Real paths of all directories that were ever queued. */
  readonly #visited = new Set<NativePath>();
  #readAhead = 0;
  #examined = 0;
  #atThisStretch = 0;
  #responseBytes = 0;
  readonly #errors: { uri: string; message: string }[] = [];
  #truncated = false;
  #rest: WalkRest | null = null;

  constructor(means: WalkMeans, options: WalkOptions & Partial<LinkOption>, reach: WalkReach) {
    this.#means = means;
    this.#reach = reach;
    this.#options = options;
    this.#followsLinks = options.followSymlinks ?? true;
  }

  async run(path: NativePath): Promise<WalkOutcome> {
    if (await this.#isWalkable(path)) {
      const realPath = this.#options.followDirectorySymlinks ? await realPathOf(path) : null;
      this.#enqueue(path, realPath, 0);
      await this.#walkQueue();
    }
    return this.#outcome(0);
  }

  /** Only for walks that follow no links to directories: nothing is known about what was met before. */
  async goOn({ directories, depth }: WalkRest): Promise<WalkOutcome> {
    for (const path of directories) this.#enqueue(path, null, depth);
    await this.#walkQueue();
    return this.#outcome(directories.length);
  }

  #outcome(knownBefore: number): WalkOutcome {
    return {
      errors: this.#errors,
      truncated: this.#truncated,
      rest: this.#rest,
      spent: {
        entries: this.#examined,
        directories: this.#queue.length - knownBefore,
        responseBytes: this.#responseBytes,
      },
    };
  }

  async #isWalkable(path: NativePath): Promise<boolean> {
    if (!this.#followsLinks) return (await getMetadata(path, { followSymlinks: false })).isDirectory;
    const stats = await lstat(systemPath(path));
    if (!stats.isSymbolicLink()) return stats.isDirectory();
    const target = await stat(systemPath(path));
    return target.isDirectory() && this.#options.followDirectorySymlinks;
  }

  async #walkQueue(): Promise<void> {
    for (let index = 0; index < this.#queue.length; index++) {
      const directory = this.#queue[index]!;
      if (directory.depth !== this.#queue[index - 1]?.depth && this.#stops(index)) return;
      this.#startReading(index + this.#means.readAhead);
      const listing = await this.#listingOf(directory);
      directory.listing = null;
      this.#means.signal.throwIfAborted();
      const goesOn =
        'error' in listing
          ? this.#addError(uriFromPath(directory.path), listing.error)
          : await this.#examine(directory, listing);
      if (!goesOn) return;
    }
  }

  /** Whether to leave all that is queued from `index` on, where a depth begins, to another piece of the walk. */
  #stops(index: number): boolean {
    if (index === 0 || this.#queue.length - index < this.#reach.stopsAt) return false;
    const directories = this.#queue.slice(index);
    this.#rest = { directories: directories.map(({ path }) => path), depth: directories[0]!.depth };
    return true;
  }

  #startReading(end: number): void {
    while (this.#readAhead < Math.min(end, this.#queue.length)) {
      const directory = this.#queue[this.#readAhead++]!;
      directory.listing = this.#readAll(directory);
    }
  }

  async #listingOf(directory: PendingDirectory): Promise<Listing | Failure> {
    const listing = await directory.listing!;
    return listing === 'large' ? await this.#readLarge(directory) : listing;
  }

  async #readAll(directory: PendingDirectory): Promise<Listing | Failure | 'large'> {
    try {
      const entries = await this.#reading(directory.path, async (path) => {
        const small = await this.#means.readSmall(path);
        return small && (await this.#resolved(path, small));
      });
      if (entries === null) return 'large';
      return await this.#prepare(directory, inByteOrder(entries));
    } catch (error) {
      return { error: toFileError(error) };
    }
  }

  /** Read only when it is its turn, so that one at most is held, and no more of it than can be examined. */
  async #readLarge(directory: PendingDirectory): Promise<Listing | Failure> {
    const first = new FirstInOrder(this.#options.maxEntries - this.#examined + 1);
    try {
      await this.#reading(directory.path, async (path) => {
        for await (const batch of directoryBatches(path)) {
          this.#means.signal.throwIfAborted();
          first.add(await this.#resolved(path, batch));
        }
      });
      return await this.#prepare(directory, first.take());
    } catch (error) {
      return { error: toFileError(error) };
    }
  }

  /** Where links are not followed, a directory is held while it is read. */
  async #reading<T>(path: NativePath, read: (path: NativePath) => Promise<T>): Promise<T> {
    return this.#followsLinks ? await read(path) : await withDirectoryOpen(path, read);
  }

  async #resolved(path: NativePath, entries: ListedEntry[]): Promise<ListedEntry[]> {
    return this.#followsLinks ? await resolveLinks(path, entries) : entries;
  }

  async #prepare(directory: PendingDirectory, entries: readonly ListedEntry[]): Promise<Listing> {
    const realPaths = new Map<string, NativePath | Failure>();
    if (directory.realPath !== null && directory.depth < this.#options.maxDepth) {
      const links = entries.filter((entry) => entry.isSymbolicLink() && entry.isDirectory());
      await forEachBounded(links, TREE_CALL_CONCURRENCY, async ({ name }) => {
        const target = realPathOf(childPath(directory.path, name));
        realPaths.set(name, await target.catch((error: unknown) => ({ error: toFileError(error) })));
      });
    }
    return { entries, realPaths };
  }

  /** False when a limit ends the walk. */
  async #examine(directory: PendingDirectory, { entries, realPaths }: Listing): Promise<boolean> {
    const parentUri = childUriStart(directory.path);
    for (const entry of entries) {
      if (++this.#atThisStretch > WALK_ENTRIES_PER_TURN) await this.#pause();
      if (this.#examined === this.#options.maxEntries) {
        this.#truncated = true;
        return false;
      }
      this.#examined++;
      const kind = this.#kindOf(entry);
      if (kind === null) continue;
      const name =
        parentUri === '' ? uriFromPath(childPath(directory.path, entry.name)) : escapeBytes(entry.name);
      if (!this.#reserve(parentUri.length + name.length)) return false;
      this.#means.found(parentUri, name, kind);
      if (kind === 'directory' && this.#mayEnter(directory, entry)) {
        const realPath = this.#entered(realPaths.get(entry.name)) ?? realPathOfChild(directory, entry);
        if (realPath !== null && typeof realPath === 'object') {
          if (!this.#addError(parentUri + name, realPath.error)) return false;
        } else {
          this.#enqueue(childPath(directory.path, entry.name), realPath, directory.depth + 1);
        }
      }
    }
    return true;
  }

  async #pause(): Promise<void> {
    this.#atThisStretch = 0;
    await nextTurn();
    this.#means.signal.throwIfAborted();
  }

  #kindOf(entry: ListedEntry): WalkEntry['kind'] | null {
    if (entry.isDirectory()) {
      return entry.isSymbolicLink() && !this.#options.followDirectorySymlinks ? null : 'directory';
    }
    return entry.isFile() && !entry.isSymbolicLink() ? 'file' : null;
  }

  #mayEnter(parent: PendingDirectory, { name }: ListedEntry): boolean {
    if (parent.depth >= this.#options.maxDepth) return false;
    return !(this.#options.pruneHiddenDirectories && name.startsWith('.'));
  }

  /** Where a link leads, or why it is not followed. */
  #entered(target: NativePath | Failure | undefined): NativePath | Failure | undefined {
    const { linksWithin } = this.#options;
    if (linksWithin === undefined || typeof target !== 'string' || isWithin(target, linksWithin))
      return target;
    return { error: refused('the link leads elsewhere and is not followed') };
  }

  #enqueue(path: NativePath, realPath: NativePath | null, depth: number): void {
    if (realPath !== null) {
      if (this.#visited.has(realPath)) return;
      this.#visited.add(realPath);
    }
    if (this.#queue.length === this.#options.maxDirectories) this.#truncated = true;
    else this.#queue.push({ path, realPath, depth, listing: null });
  }

  #addError(uri: string, error: unknown): boolean {
    if (!(error instanceof FileError)) throw error;
    if (!this.#reserve(uri.length + error.message.length)) return false;
    this.#errors.push({ uri, message: error.message });
    return true;
  }

  /** False when the answer has no room for so many bytes. */
  #reserve(bytes: number): boolean {
    const total = this.#responseBytes + bytes + WALK_ITEM_BYTES;
    if (total > this.#reach.responseBytes) {
      this.#truncated = true;
      return false;
    }
    this.#responseBytes = total;
    return true;
  }
}

/** Refuses limits that are zero or beyond what a walk may do. */
export function checkWalkLimits({ maxDepth, maxDirectories, maxEntries }: WalkOptions): void {
  if (maxDirectories === 0 || maxEntries === 0) {
    throw refused('filesystem walk limits must be greater than zero');
  }
  if (maxDepth > WALK_MAX_DEPTH || maxDirectories > WALK_MAX_DIRECTORIES || maxEntries > WALK_MAX_ENTRIES) {
    throw refused(
      `filesystem walk limits exceed maximums: depth=${WALK_MAX_DEPTH}, directories=${WALK_MAX_DIRECTORIES}, entries=${WALK_MAX_ENTRIES}`,
    );
  }
}

async function realPathOf(path: NativePath): Promise<NativePath> {
  return nativePathOfBytes(await realpath(systemPath(path), { encoding: 'latin1' }));
}

function realPathOfChild(parent: PendingDirectory, entry: ListedEntry): NativePath | null {
  return parent.realPath === null ? null : childPath(parent.realPath, entry.name);
}

/** What the URIs of all entries of a directory begin with; nearly always the name is all that is left to spell. Empty if it is not. */
function childUriStart(directory: NativePath): string {
  const uri = uriFromPath(directory);
  return directory === '/' || uri !== `file://${escapeBytes(directory)}` ? '' : `${uri}/`;
}
