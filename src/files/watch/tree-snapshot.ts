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
  isReplacedBy,
  kindOf,
  type PendingCheck,
  type PendingNames,
} from './directory-node.ts';
import type { WatchEventKind, WatchEventQueue, WatchEventSource } from './event-queue.ts';
import type { Exclusion } from './exclusion.ts';
import { throwIfExhausted, type WatchBudget } from './watch-budget.ts';

export interface TreeSnapshotOptions {
  readonly recursive: boolean;
  readonly exclusion: Exclusion;
  readonly budget: WatchBudget;
  readonly events: WatchEventQueue;
  /** Limits concurrent system calls. */
  readonly slots: Semaphore;
  readonly maxPendingNames?: number;
  /** Called when {@link TreeSnapshot.reconcile} has something to check. */
  readonly onEvent: () => void;
}

/**
 * The names and kinds of everything below a root, and a watch on each of its directories. Events only say where to check. A
 * reported change is the difference between this snapshot and the current state. So the names are right even if a directory is
 * filled before its watch is active, moved in or out, or replaced by another. Watchers that forward events, such as Node's
 * recursive one and @parcel/watcher, miss the contents of a directory that is moved in, report the old path of a renamed one, and
 * ignore a queue overflow.
 *
 * The snapshot contains nothing about content. A file counts as modified when an event names it or its directory was replaced;
 * after lost events such modifications are missing. A directory counts as modified only when another one replaces it, since Node
 * does not distinguish its attributes from its name. Links are not followed, except at the root. Of an unreadable directory only
 * the name is known.
 */
export class TreeSnapshot {
  readonly #root: NativePath;
  readonly #options: TreeSnapshotOptions;
  readonly #maxPendingNames: number;
  /**
   * The parent directory of the root, with the root as its only entry. So the root appears, disappears and changes like any other
   * entry.
   */
  readonly #top: DirectoryNode;
  /** Directories with pending checks. */
  #pending = new Set<DirectoryNode>();
  #pendingCount = 0;
  #eventsLost = false;
  #rootFile: RootFile | null = null;
  readonly #closing = new AbortController();

  constructor(root: NativePath, options: TreeSnapshotOptions) {
    this.#root = root;
    this.#options = options;
    this.#maxPendingNames = options.maxPendingNames ?? WATCH_MAX_PENDING_NAMES;
    this.#top = new DirectoryNode(parentPath(root), null);
  }

  /**
   * Reads the whole tree. Fails with the system's error when the root does not exist or is a directory that may not be listed, or with a
   * `WatchLimitError`.
   */
  async scan(changes: ChangeList): Promise<void> {
    await this.#inSlot(async () => {
      const found = await stat(systemPath(this.#root));
      // A watch of such a directory would never report anything.
      if (found.isDirectory()) await (await opendir(systemPath(this.#root))).close();
    });
    if (this.#top.gone) return;
    this.#watchTop();
    this.checkRoot();
    await this.reconcile(changes);
  }

  /** Whether checks are pending. */
  get isStale(): boolean {
    return this.#pending.size > 0 || this.#eventsLost;
  }

  /** Schedules a check of the root without an event. */
  checkRoot(): void {
    this.#schedule(this.#top, lastName(this.#root), 'check');
  }

  /** Schedules a check of everything, because events may be missing. */
  markAllStale(): void {
    this.#eventsLost = true;
    for (const directory of this.#pending) directory.pending.clear();
    this.#pending.clear();
    this.#pendingCount = 0;
    this.#options.onEvent();
  }

  /**
   * Runs the pending checks and adds the differences to `changes`. Events in the meantime are kept for the next call. Calls must
   * not overlap. Fails with a `WatchLimitError`; then the snapshot can only be closed.
   */
  async reconcile(changes: ChangeList): Promise<void> {
    this.#options.exclusion.reset();
    if (this.#eventsLost) this.#markEveryDirectory(changes);
    // One visit at a time per directory: the result of an older check must not overwrite a newer one.
    const visits: Visits = new Map([...this.#pending].map((directory) => [directory, 'pending']));
    this.#pending = new Set();
    this.#pendingCount = 0;
    while (visits.size > 0) {
      const some = [...takeSome(visits, WATCH_CHECK_CONCURRENCY)];
      await Promise.all(some.map(([directory, reason]) => this.#visit(directory, reason, visits, changes)));
    }
  }

  close(): void {
    this.#closing.abort();
    this.#rootFile?.source?.close();
    for (const name of [...this.#top.entries.keys()]) this.#forget(this.#top, name, null);
    this.#top.close();
    this.#pending.clear();
  }

  #markEveryDirectory(changes: ChangeList): void {
    this.#eventsLost = false;
    changes.markIncomplete();
    this.checkRoot();
    for (const directory of directoriesBelow(this.#top)) {
      directory.stale = true;
      this.#pending.add(directory);
    }
  }

  async #visit(
    directory: DirectoryNode,
    reason: VisitReason,
    visits: Visits,
    changes: ChangeList,
  ): Promise<void> {
    if (directory.gone) return;
    const names = directory.pending;
    const whole = directory.stale || reason === 'replaced';
    directory.pending = new Map();
    directory.stale = false;
    if (whole && directory !== this.#top) await this.#visitWhole(directory, reason, names, visits, changes);
    else await this.#visitNames(directory, names, visits, changes);
  }

  async #visitNames(
    directory: DirectoryNode,
    names: PendingNames,
    visits: Visits,
    changes: ChangeList,
  ): Promise<void> {
    const rest = new Map(names);
    while (rest.size > 0) {
      await this.#options.exclusion.pause();
      const some = [...takeSome(rest, WATCH_CHECK_CONCURRENCY)].filter(
        ([name]) => !this.#isExcluded(directory, name),
      );
      const found = await Promise.all(some.map(([name]) => this.#check(directory, name)));
      if (directory.gone) return;
      for (const [index, [name, pending]] of some.entries()) {
        this.#compare(directory, name, found[index] ?? null, pending, visits, changes);
      }
    }
  }

  /** Renews the watch and compares all names of the directory. The watch comes first, so that no change in between is missed. */
  async #visitWhole(
    directory: DirectoryNode,
    reason: VisitReason,
    pending: PendingNames,
    visits: Visits,
    changes: ChangeList,
  ): Promise<void> {
    const itself = await this.#check(directory.parent!, lastName(directory.path));
    if (directory.gone) return;
    const replaced = reason === 'replaced' || isReplacedBy(directory, itself);
    // The check of its name in the parent may run at the same time and then sees the new inode already.
    if (replaced) changes.add(directory.path, 'modified');
    directory.inode = itself?.inode ?? null;
    this.#watch(directory);
    const entries = await this.#list(directory, changes);
    if (directory.gone) return;
    for (const name of [...directory.entries.keys()]) {
      if (!entries.has(name)) this.#forget(directory, name, changes);
    }
    for (const [name, kind] of entries) {
      const seen = { kind, inode: null };
      this.#compare(
        directory,
        name,
        seen,
        replaced ? 'replaced' : (pending.get(name) ?? 'check'),
        visits,
        changes,
      );
    }
  }

  #compare(
    directory: DirectoryNode,
    name: string,
    found: Found | null,
    pending: PendingCheck,
    visits: Visits,
    changes: ChangeList,
  ): void {
    const path = childPath(directory.path, name);
    const known = directory.entries.get(name);
    const isReplacedRoot = directory === this.#top && this.#followRootFile(found, pending);
    if (known !== undefined && kindOf(known) !== found?.kind) this.#forget(directory, name, changes);
    if (found === null) return;
    if (!directory.entries.has(name)) {
      this.#add(directory, name, found.kind, visits, changes);
    } else if (known instanceof DirectoryNode) {
      const replaced = pending === 'replaced' || isReplacedBy(known, found);
      if (replaced) changes.add(path, 'modified');
      if (replaced) visits.set(known, 'replaced');
      else if (known.source === null) known.stale = true;
      if (known.stale && !visits.has(known)) visits.set(known, 'pending');
    } else if (pending !== 'check' || isReplacedRoot) {
      changes.add(path, 'modified');
    }
  }

  #add(directory: DirectoryNode, name: string, kind: EntryKind, visits: Visits, changes: ChangeList): void {
    const path = childPath(directory.path, name);
    const isEntered = kind === 'directory' && (this.#options.recursive || directory === this.#top);
    this.#options.budget.take(isEntered);
    changes.add(path, 'created');
    // A root that reappears may be in a different parent directory of the same name.
    if (directory === this.#top) this.#watchTop();
    if (!isEntered) {
      directory.entries.set(name, kind);
      return;
    }
    const added = new DirectoryNode(path, directory);
    added.stale = true;
    directory.entries.set(name, added);
    visits.set(added, 'pending');
  }

  /** Removes an entry, and everything below it first. */
  #forget(directory: DirectoryNode, name: string, changes: ChangeList | null): void {
    const known = directory.entries.get(name);
    directory.entries.delete(name);
    if (known instanceof DirectoryNode) {
      known.close();
      this.#pending.delete(known);
      for (const below of [...known.entries.keys()]) this.#forget(known, below, changes);
    }
    this.#options.budget.give(known instanceof DirectoryNode);
    changes?.add(childPath(directory.path, name), 'deleted');
  }

  /**
   * Watches a root that is not a directory directly, because a link may lead to a file elsewhere. Returns true when it is a
   * different file now.
   */
  #followRootFile(found: Found | null, pending: PendingCheck): boolean {
    const before = this.#rootFile;
    const isSame = found !== null && found.inode === before?.inode;
    if (isSame && pending !== 'rename') return false;
    before?.source?.close();
    this.#rootFile = null;
    if (found === null || found.kind === 'directory') return false;
    const source = this.#open(this.#root, (kind) => {
      this.#schedule(this.#top, lastName(this.#root), kind);
      this.#options.onEvent();
    });
    this.#rootFile = { source, inode: found.inode };
    return before !== null && !isSame;
  }

  #watchTop(): void {
    if (this.#root !== '/') this.#watch(this.#top);
  }

  #watch(directory: DirectoryNode): void {
    const before = directory.source;
    directory.source = this.#open(directory.path, (kind, name) => this.#onEvent(directory, kind, name));
    before?.close();
  }

  /** Null when the path does not exist or is not readable. */
  #open(
    path: NativePath,
    listener: (kind: WatchEventKind, name: string | null) => void,
  ): WatchEventSource | null {
    try {
      return this.#options.events.open(path, listener);
    } catch (error) {
      throwIfExhausted(error);
      return null;
    }
  }

  #onEvent(directory: DirectoryNode, kind: WatchEventKind, name: string | null): void {
    if (directory.gone) return;
    if (directory === this.#top) {
      if (name !== null && name !== lastName(this.#root)) return;
      this.#schedule(directory, lastName(this.#root), kind);
    } else {
      if (name !== null) this.#schedule(directory, name, kind);
      // The directory itself may have been moved or removed, together with its watch. Or the event concerns an entry of the same
      // name.
      if (name === null || (kind === 'rename' && name === lastName(directory.path))) {
        directory.stale = true;
        this.#pending.add(directory);
        this.#schedule(directory.parent!, lastName(directory.path), 'check');
      }
    }
    this.#options.onEvent();
  }

  #schedule(directory: DirectoryNode, name: string, pending: PendingCheck): void {
    if (this.#eventsLost || directory.gone) return;
    const before = directory.pending.get(name);
    if (before === undefined) this.#pendingCount += 1;
    if (before === undefined || before === 'check' || pending === 'rename')
      directory.pending.set(name, pending);
    this.#pending.add(directory);
    if (this.#pendingCount > this.#maxPendingNames) this.markAllStale();
  }

  #isExcluded(directory: DirectoryNode, name: string): boolean {
    return directory !== this.#top && this.#options.exclusion.excludes(childPath(directory.path, name));
  }

  async #check(directory: DirectoryNode, name: string): Promise<Found | null> {
    const path = systemPath(childPath(directory.path, name));
    try {
      const found = await this.#inSlot(() => (directory === this.#top ? stat(path) : lstat(path)));
      return { kind: entryKind(found), inode: found.ino };
    } catch (error) {
      throwIfExhausted(error);
      return null;
    }
  }

  async #list(directory: DirectoryNode, changes: ChangeList): Promise<Map<string, EntryKind>> {
    const entries = new Map<string, EntryKind>();
    try {
      await this.#inSlot(() => this.#listInto(entries, directory));
    } catch (error) {
      throwIfExhausted(error);
      const code = errorCode(error);
      // The parent's check detects a removed directory. Nothing below an unreadable directory is known.
      if (code !== 'ENOENT' && code !== 'ENOTDIR' && code !== 'EACCES') changes.markIncomplete();
    }
    return entries;
  }

  async #listInto(entries: Map<string, EntryKind>, directory: DirectoryNode): Promise<void> {
    // Names as bytes: on a file system that reports no types, Node looks up each entry by its exact name.
    const encoding = 'buffer' as BufferEncoding;
    const listing = await opendir(systemPath(directory.path), {
      encoding,
      bufferSize: READDIR_BATCH_ENTRIES,
    });
    for await (const entry of listing) {
      const name = (entry.name as string | Buffer).toString('latin1');
      const pause = this.#options.exclusion.pause();
      if (pause !== null) await pause;
      if (this.#isExcluded(directory, name)) continue;
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

/** `replaced`: a different directory has the name, so every file in it is a different one. */
type VisitReason = 'pending' | 'replaced';
type Visits = Map<DirectoryNode, VisitReason>;

interface RootFile {
  readonly source: WatchEventSource | null;
  readonly inode: number | null;
}

/** Entries per read of a directory: fewer round trips than Node's default of 32. */
const READDIR_BATCH_ENTRIES = 256;

function* takeSome<K, V>(from: Map<K, V>, count: number): Generator<[K, V]> {
  for (const pair of from) {
    if (count-- === 0) return;
    from.delete(pair[0]);
    yield pair;
  }
}
