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
 * The files and directories below `path`, breadth first, the names of each directory in byte order. Reaching a limit truncates the
 * result and is not an error; neither is an unreadable directory. Rejects with the signal's reason when it is aborted.
 */
export async function walk(
  path: NativePath,
  options: WalkOptions & Partial<LinkOption>,
  signal: AbortSignal,
): Promise<WalkResult> {
  checkWalkLimits(options);
  const entries: WalkEntry[] = [];
  const found: WalkFound = (directory, name, kind) => void entries.push({ uri: directory + name, kind });
  const context = { readSmall: readSmallDirectory, readAhead: WALK_READ_AHEAD, found, signal };
  const { errors, truncated } = await outcomeOf(new Walk(context, options, WHOLE_WALK).run(path));
  return { entries, errors, truncated };
}

/**
 * Runs a walk, or a part of one, with blocking calls, on a file thread that is terminated when the walk is cancelled. It starts
 * with one path, or continues with directories that another part has left.
 */
export async function walkBlocking(
  start: WalkStart,
  options: WalkOptions,
  limits: WalkPartLimits,
  found: WalkFound,
): Promise<WalkOutcome> {
  const { signal } = new AbortController();
  const walk = new Walk({ readSmall: readSmallDirectorySync, readAhead: 1, found, signal }, options, limits);
  return await outcomeOf('path' in start ? walk.run(start.path) : walk.resume(start));
}

/** Receives each entry as it is found. The URI comes in two parts; the first is the same string for all entries of a directory. */
type WalkFound = (directory: string, name: string, kind: WalkEntry['kind']) => void;

/** Where to start: a path, or directories of one depth, in order. */
export type WalkStart = { readonly path: NativePath } | WalkRest;

export interface WalkRest {
  readonly directories: readonly NativePath[];
  readonly depth: number;
}

/** The limits of one part of a walk, in addition to the options. */
export interface WalkPartLimits {
  /** What is left of the response size. */
  readonly responseBytes: number;
  /** The part ends before a depth with this many directories. */
  readonly stopsAt: number;
}

/** The result of a walk without its entries. */
export interface WalkOutcome extends Omit<WalkResult, 'entries'> {
  /** Where the part stopped; null when the walk is complete. */
  readonly rest: WalkRest | null;
  readonly used: WalkUsage;
}

/** What a walk or a part of it has used of its limits: entries examined, and directories found that may be entered. */
export interface WalkUsage {
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

/** How a walk reads directories, how many it reads ahead, and where it reports entries. */
interface WalkContext {
  /** A synchronous result is not awaited. */
  readonly readSmall: (path: NativePath) => ListedEntry[] | null | Promise<ListedEntry[] | null>;
  readonly readAhead: number;
  readonly found: WalkFound;
  readonly signal: AbortSignal;
}

const WHOLE_WALK: WalkPartLimits = { responseBytes: WALK_RESPONSE_BYTES, stopsAt: Number.POSITIVE_INFINITY };

interface PendingDirectory {
  readonly path: NativePath;
  /** The real path; null where links are not followed, because then no directory is reached twice. */
  readonly realPath: NativePath | null;
  readonly depth: number;
  /** Never rejects, because nothing awaits it when the walk ends early. */
  listing: Promise<Listing | Failure | 'large'> | null;
}

interface Listing {
  /** Sorted. Links are resolved, and dangling ones are omitted. */
  readonly entries: readonly ListedEntry[];
  /** The targets of links to directories that may be entered, by name. */
  readonly realPaths: ReadonlyMap<string, NativePath | Failure>;
}

interface Failure {
  readonly error: unknown;
}

class Walk {
  readonly #context: WalkContext;
  readonly #limits: WalkPartLimits;
  readonly #options: WalkOptions;
  /** Whether any links are followed. If not, links to directories are not followed either. */
  readonly #followsLinks: boolean;
  readonly #queue: PendingDirectory[] = [];
  /** Real paths of all directories that were ever queued. */
  readonly #visited = new Set<NativePath>();
  #readAhead = 0;
  #examined = 0;
  #entriesThisTurn = 0;
  #responseBytes = 0;
  readonly #errors: { uri: string; message: string }[] = [];
  #truncated = false;
  #rest: WalkRest | null = null;

  constructor(context: WalkContext, options: WalkOptions & Partial<LinkOption>, limits: WalkPartLimits) {
    this.#context = context;
    this.#limits = limits;
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

  /** Only for walks that follow no links to directories: the directories visited earlier are not known. */
  async resume({ directories, depth }: WalkRest): Promise<WalkOutcome> {
    for (const path of directories) this.#enqueue(path, null, depth);
    await this.#walkQueue();
    return this.#outcome(directories.length);
  }

  #outcome(startCount: number): WalkOutcome {
    return {
      errors: this.#errors,
      truncated: this.#truncated,
      rest: this.#rest,
      used: {
        entries: this.#examined,
        directories: this.#queue.length - startCount,
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
      this.#startReading(index + this.#context.readAhead);
      const listing = await this.#listingOf(directory);
      directory.listing = null;
      this.#context.signal.throwIfAborted();
      const continues =
        'error' in listing
          ? this.#addError(uriFromPath(directory.path), listing.error)
          : await this.#examine(directory, listing);
      if (!continues) return;
    }
  }

  /** Whether to leave everything queued from `index`, where a depth begins, to another part of the walk. */
  #stops(index: number): boolean {
    if (index === 0 || this.#queue.length - index < this.#limits.stopsAt) return false;
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
        const small = await this.#context.readSmall(path);
        return small && (await this.#resolved(path, small));
      });
      if (entries === null) return 'large';
      return await this.#prepare(directory, inByteOrder(entries));
    } catch (error) {
      return { error: toFileError(error) };
    }
  }

  /**
   * Reads a large directory only when it is processed, so that at most one is in memory, with no more entries than can be examined.
   */
  async #readLarge(directory: PendingDirectory): Promise<Listing | Failure> {
    const first = new FirstInOrder(this.#options.maxEntries - this.#examined + 1);
    try {
      await this.#reading(directory.path, async (path) => {
        for await (const batch of directoryBatches(path)) {
          this.#context.signal.throwIfAborted();
          first.add(await this.#resolved(path, batch));
        }
      });
      return await this.#prepare(directory, first.take());
    } catch (error) {
      return { error: toFileError(error) };
    }
  }

  /** Where links are not followed, the directory stays open while it is read. */
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

  /** Returns false when a limit ends the walk. */
  async #examine(directory: PendingDirectory, { entries, realPaths }: Listing): Promise<boolean> {
    const parentUri = childUriStart(directory.path);
    for (const entry of entries) {
      if (++this.#entriesThisTurn > WALK_ENTRIES_PER_TURN) await this.#pause();
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
      this.#context.found(parentUri, name, kind);
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
    this.#entriesThisTurn = 0;
    await nextTurn();
    this.#context.signal.throwIfAborted();
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

  /** The target of a link, or why it is not followed. */
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

  /** Returns false when the response would exceed its size limit. */
  #reserve(bytes: number): boolean {
    const total = this.#responseBytes + bytes + WALK_ITEM_BYTES;
    if (total > this.#limits.responseBytes) {
      this.#truncated = true;
      return false;
    }
    this.#responseBytes = total;
    return true;
  }
}

/** Rejects limits that are zero or above the maximum. */
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

/**
 * The common start of the URIs of all entries of a directory, so that only the name has to be encoded. Empty for the few
 * directories where this does not hold.
 */
function childUriStart(directory: NativePath): string {
  const uri = uriFromPath(directory);
  return directory === '/' || uri !== `file://${escapeBytes(directory)}` ? '' : `${uri}/`;
}
