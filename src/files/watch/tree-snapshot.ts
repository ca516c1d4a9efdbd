import { lstat, opendir, stat } from 'node:fs/promises';
import type { Semaphore } from '../../base/semaphore.ts';
import { errorCode } from '../errors.ts';
import { WATCH_CHECK_CONCURRENCY, WATCH_MAX_PENDING_NAMES } from '../limits.ts';
import { childPath, lastName, type NativePath, parentPath, systemPath } from '../native-path.ts';
import type { ChangeList } from './change-list.ts';
import {
  DirectoryNode,
  directoriesBelow,
  type EntryKind,
  entryKind,
  type Found,
  isOther,
  kindOf,
  type Noted,
  type NotedNames,
} from './directory-node.ts';
import type { WatchEventKind, WatchEventQueue, WatchEventSource } from './event-queue.ts';
import type { Exclusion } from './exclusion.ts';
import { type WatchBudget, WatchLimitError } from './watch-budget.ts';

export interface TreeSnapshotOptions {
  readonly recursive: boolean;
  readonly excluded: Exclusion;
  readonly budget: WatchBudget;
  readonly notices: WatchEventQueue;
  /** For what is with the system at once. */
  readonly slots: Semaphore;
  readonly maxPendingNames?: number;
  /** Something was noticed that {@link TreeSnapshot.reconcile} should look at. */
  readonly onNotice: () => void;
}

/**
 * The names and kinds of everything below a root, and a watch on each of its directories. Events only say where to look; what is
 * told as a change is the difference between what was known and what is there now. So the names are right whatever became of
 * single events: when a directory is filled before its watch stands, moved in or out, or replaced by another. Watchers that pass
 * events on, as Node's recursive one and @parcel/watcher do, lose what is in a directory that is moved in, keep telling the old
 * path of one that was renamed, and keep silent about a queue that overflowed.
 *
 * Nothing about content is remembered. A file counts as modified when an event names it or its directory was replaced; this is
 * what is missing when events were lost. A directory counts as modified only when another takes its place, since Node does not
 * tell its attributes from its name. Links are not followed, but for the root itself. Of a directory that cannot be read
 * only the name is known.
 */
export class TreeSnapshot {
  readonly #root: NativePath;
  readonly #options: TreeSnapshotOptions;
  readonly #maxPendingNames: number;
  /** The directory of the root, of which only the root is known. So the root comes, goes and changes like any other entry. */
  readonly #top: DirectoryNode;
  /** Folders where something was noticed since the last look. */
  #noted = new Set<DirectoryNode>();
  #notedNames = 0;
  #eventsLost = false;
  #rootFile: RootFile | null = null;
  readonly #closing = new AbortController();

  constructor(root: NativePath, options: TreeSnapshotOptions) {
    this.#root = root;
    this.#options = options;
    this.#maxPendingNames = options.maxPendingNames ?? WATCH_MAX_PENDING_NAMES;
    this.#top = new DirectoryNode(parentPath(root), null);
  }

  /** Learns the whole tree. Fails with the system's error when there is no root, or with a {@link WatchLimitError}. */
  async learn(changes: ChangeList): Promise<void> {
    await this.#inSlot(() => stat(systemPath(this.#root)));
    if (this.#top.gone) return;
    this.#watchTop();
    this.checkRoot();
    await this.reconcile(changes);
  }

  /** Whether something was noticed that has not been looked at yet. */
  get isStale(): boolean {
    return this.#noted.size > 0 || this.#eventsLost;
  }

  /** Has the root looked at, though no event says so. */
  checkRoot(): void {
    this.#note(this.#top, lastName(this.#root), 'look');
  }

  /** Has everything looked at: events may be missing. */
  doubtAll(): void {
    this.#eventsLost = true;
    for (const folder of this.#noted) folder.noted.clear();
    this.#noted.clear();
    this.#notedNames = 0;
    this.#options.onNotice();
  }

  /**
   * Looks where something was noticed and puts the differences into `changes`. What happens meanwhile is noted for the next time.
   * Calls come one after the other. Fails with a {@link WatchLimitError}, after which the tree can only be closed.
   */
  async reconcile(changes: ChangeList): Promise<void> {
    if (this.#eventsLost) this.#doubtEveryFolder(changes);
    // One visit at a time for each folder: an older look must not be taken for the newer one.
    const visits: Visits = new Map([...this.#noted].map((folder) => [folder, 'noted']));
    this.#noted = new Set();
    this.#notedNames = 0;
    while (visits.size > 0) {
      const some = [...takeSome(visits, WATCH_CHECK_CONCURRENCY)];
      await Promise.all(some.map(([folder, reason]) => this.#visit(folder, reason, visits, changes)));
    }
  }

  close(): void {
    this.#closing.abort();
    this.#rootFile?.source?.close();
    for (const name of [...this.#top.entries.keys()]) this.#forget(this.#top, name, null);
    this.#top.close();
    this.#noted.clear();
  }

  #doubtEveryFolder(changes: ChangeList): void {
    this.#eventsLost = false;
    changes.markIncomplete();
    this.checkRoot();
    for (const folder of directoriesBelow(this.#top)) {
      folder.doubted = true;
      this.#noted.add(folder);
    }
  }

  async #visit(
    folder: DirectoryNode,
    reason: VisitReason,
    visits: Visits,
    changes: ChangeList,
  ): Promise<void> {
    if (folder.gone) return;
    const names = folder.noted;
    const whole = folder.doubted || reason === 'replaced';
    folder.noted = new Map();
    folder.doubted = false;
    if (whole && folder !== this.#top) await this.#visitWhole(folder, reason, names, visits, changes);
    else await this.#visitNames(folder, names, visits, changes);
  }

  async #visitNames(
    folder: DirectoryNode,
    names: NotedNames,
    visits: Visits,
    changes: ChangeList,
  ): Promise<void> {
    const rest = new Map(names);
    while (rest.size > 0) {
      const some = [...takeSome(rest, WATCH_CHECK_CONCURRENCY)].filter(
        ([name]) => !this.#isExcluded(folder, name),
      );
      const found = await Promise.all(some.map(([name]) => this.#look(folder, name)));
      if (folder.gone) return;
      for (const [index, [name, noted]] of some.entries()) {
        this.#compare(folder, name, found[index] ?? null, noted, visits, changes);
      }
    }
  }

  /** Watches the directory afresh and compares all of its names. The watch comes first: nothing happens unseen in between. */
  async #visitWhole(
    folder: DirectoryNode,
    reason: VisitReason,
    noted: NotedNames,
    visits: Visits,
    changes: ChangeList,
  ): Promise<void> {
    const itself = await this.#look(folder.parent!, lastName(folder.path));
    if (folder.gone) return;
    const replaced = reason === 'replaced' || isOther(folder, itself);
    folder.inode = itself?.inode ?? null;
    this.#watch(folder);
    const entries = await this.#list(folder, changes);
    if (folder.gone) return;
    for (const name of [...folder.entries.keys()]) {
      if (!entries.has(name)) this.#forget(folder, name, changes);
    }
    for (const [name, kind] of entries) {
      const seen = { kind, inode: null };
      this.#compare(folder, name, seen, replaced ? 'replaced' : (noted.get(name) ?? 'look'), visits, changes);
    }
  }

  #compare(
    folder: DirectoryNode,
    name: string,
    found: Found | null,
    noted: Noted,
    visits: Visits,
    changes: ChangeList,
  ): void {
    const path = childPath(folder.path, name);
    const known = folder.entries.get(name);
    const isOtherRoot = folder === this.#top && this.#followRootFile(found, noted);
    if (known !== undefined && kindOf(known) !== found?.kind) this.#forget(folder, name, changes);
    if (found === null) return;
    if (!folder.entries.has(name)) {
      this.#add(folder, name, found.kind, visits, changes);
    } else if (known instanceof DirectoryNode) {
      const replaced = noted === 'replaced' || isOther(known, found);
      if (replaced) changes.add(path, 'modified');
      if (replaced) visits.set(known, 'replaced');
      else if (known.source === null) known.doubted = true;
      if (known.doubted && !visits.has(known)) visits.set(known, 'noted');
    } else if (noted !== 'look' || isOtherRoot) {
      changes.add(path, 'modified');
    }
  }

  #add(folder: DirectoryNode, name: string, kind: EntryKind, visits: Visits, changes: ChangeList): void {
    const path = childPath(folder.path, name);
    const isEntered = kind === 'directory' && (this.#options.recursive || folder === this.#top);
    this.#options.budget.take(isEntered);
    changes.add(path, 'created');
    // A root that comes back may be in another directory of the same name.
    if (folder === this.#top) this.#watchTop();
    if (!isEntered) {
      folder.entries.set(name, kind);
      return;
    }
    const added = new DirectoryNode(path, folder);
    added.doubted = true;
    folder.entries.set(name, added);
    visits.set(added, 'noted');
  }

  /** Takes an entry out, and what lies below it first. */
  #forget(folder: DirectoryNode, name: string, changes: ChangeList | null): void {
    const known = folder.entries.get(name);
    folder.entries.delete(name);
    if (known instanceof DirectoryNode) {
      known.close();
      this.#noted.delete(known);
      for (const below of [...known.entries.keys()]) this.#forget(known, below, changes);
    }
    this.#options.budget.give(known instanceof DirectoryNode);
    changes?.add(childPath(folder.path, name), 'deleted');
  }

  /** Watches a root that is no directory by itself too: a link leads to a file elsewhere. True when it is another file now. */
  #followRootFile(found: Found | null, noted: Noted): boolean {
    const before = this.#rootFile;
    const isSame = found !== null && found.inode === before?.inode;
    if (isSame && noted !== 'rename') return false;
    before?.source?.close();
    this.#rootFile = null;
    if (found === null || found.kind === 'directory') return false;
    const source = this.#open(this.#root, (kind) => {
      this.#note(this.#top, lastName(this.#root), kind);
      this.#options.onNotice();
    });
    this.#rootFile = { source, inode: found.inode };
    return before !== null && !isSame;
  }

  #watchTop(): void {
    if (this.#root !== '/') this.#watch(this.#top);
  }

  #watch(folder: DirectoryNode): void {
    const before = folder.source;
    folder.source = this.#open(folder.path, (kind, name) => this.#notice(folder, kind, name));
    before?.close();
  }

  /** Null when the path is gone or must not be read. */
  #open(
    path: NativePath,
    listener: (kind: WatchEventKind, name: string | null) => void,
  ): WatchEventSource | null {
    try {
      return this.#options.notices.open(path, listener);
    } catch (error) {
      throwIfExhausted(error);
      return null;
    }
  }

  #notice(folder: DirectoryNode, kind: WatchEventKind, name: string | null): void {
    if (folder.gone) return;
    if (folder === this.#top) {
      if (name !== null && name !== lastName(this.#root)) return;
      this.#note(folder, lastName(this.#root), kind);
    } else {
      if (name !== null) this.#note(folder, name, kind);
      // The directory itself may have been moved or removed, and its watch with it; or this is about an entry of the same name.
      if (name === null || (kind === 'rename' && name === lastName(folder.path))) {
        folder.doubted = true;
        this.#noted.add(folder);
        this.#note(folder.parent!, lastName(folder.path), 'look');
      }
    }
    this.#options.onNotice();
  }

  #note(folder: DirectoryNode, name: string, noted: Noted): void {
    if (this.#eventsLost || folder.gone) return;
    const before = folder.noted.get(name);
    if (before === undefined) this.#notedNames += 1;
    if (before === undefined || before === 'look' || noted === 'rename') folder.noted.set(name, noted);
    this.#noted.add(folder);
    if (this.#notedNames > this.#maxPendingNames) this.doubtAll();
  }

  #isExcluded(folder: DirectoryNode, name: string): boolean {
    return folder !== this.#top && this.#options.excluded(childPath(folder.path, name));
  }

  async #look(folder: DirectoryNode, name: string): Promise<Found | null> {
    const path = systemPath(childPath(folder.path, name));
    try {
      const found = await this.#inSlot(() => (folder === this.#top ? stat(path) : lstat(path)));
      return { kind: entryKind(found), inode: found.ino };
    } catch (error) {
      throwIfExhausted(error);
      return null;
    }
  }

  async #list(folder: DirectoryNode, changes: ChangeList): Promise<Map<string, EntryKind>> {
    const entries = new Map<string, EntryKind>();
    try {
      await this.#inSlot(() => this.#listInto(entries, folder));
    } catch (error) {
      throwIfExhausted(error);
      const code = errorCode(error);
      // A directory that went away is missed in its own directory; nothing below one that cannot be read is known.
      if (code !== 'ENOENT' && code !== 'ENOTDIR' && code !== 'EACCES') changes.markIncomplete();
    }
    return entries;
  }

  async #listInto(entries: Map<string, EntryKind>, folder: DirectoryNode): Promise<void> {
    // With names as bytes, since a file system that does not tell kinds has each of them looked up by name.
    const encoding = 'buffer' as BufferEncoding;
    const directory = await opendir(systemPath(folder.path), { encoding, bufferSize: LISTED_AT_ONCE });
    for await (const entry of directory) {
      const name = (entry.name as string | Buffer).toString('latin1');
      if (this.#isExcluded(folder, name)) continue;
      this.#options.budget.check(entries.size);
      entries.set(name, entryKind(entry));
    }
  }

  async #inSlot<T>(work: () => Promise<T>): Promise<T> {
    await this.#options.slots.acquire(this.#closing.signal);
    try {
      return await work();
    } finally {
      this.#options.slots.release();
    }
  }
}

/** `replaced`: another directory stands in the place of the known one, so that no file in it is the same. */
type VisitReason = 'noted' | 'replaced';
type Visits = Map<DirectoryNode, VisitReason>;

interface RootFile {
  readonly source: WatchEventSource | null;
  readonly inode: number | null;
}

/** Entries that are fetched from the system in one go: fewer trips than Node's default of 32. */
const LISTED_AT_ONCE = 256;

function* takeSome<K, V>(from: Map<K, V>, count: number): Generator<[K, V]> {
  for (const pair of from) {
    if (count-- === 0) return;
    from.delete(pair[0]);
    yield pair;
  }
}

function throwIfExhausted(error: unknown): void {
  if (error instanceof WatchLimitError) throw error;
  const code = errorCode(error);
  if (code === null || !EXHAUSTED.has(code)) return;
  const limit = code === 'ENOSPC' ? 'watches (fs.inotify.max_user_watches)' : `resources (${code})`;
  throw new WatchLimitError(`the system has no more ${limit}; exclude directories or raise its limit`);
}

const EXHAUSTED = new Set(['ENOSPC', 'EMFILE', 'ENFILE', 'ENOMEM']);
