import { Semaphore } from '../../base/semaphore.ts';
import { FileError, refused, toFileError } from '../errors.ts';
import {
  WATCH_CHECKS_PER_CONNECTION,
  WATCH_MAX_DEBOUNCE_MS,
  WATCH_NOTIFICATION_CHANGES,
  WATCH_RETRY_MS,
  WATCH_ROOT_CHECK_MS,
} from '../limits.ts';
import type { NativePath } from '../native-path.ts';
import { type ChangeBatch, ChangeList } from './change-list.ts';
import { processEventQueue, type WatchEventQueue } from './event-queue.ts';
import { exclusionBelow } from './exclusion.ts';
import { TreeSnapshot, type TreeSnapshotOptions } from './tree-snapshot.ts';
import { WatchBudget, WatchLimitError } from './watch-budget.ts';

export interface TreeWatchOptions {
  /** Everything below a directory, or only its own entries. It makes no difference to a file. */
  readonly recursive: boolean;
  /** Globs of paths, relative to the root, that are neither watched nor told. */
  readonly exclude: readonly string[];
  /** How long changes gather, counted from the first one. */
  readonly debounceMs: number;
}

/** What a watch works with; every part has a default. */
export interface TreeWatchContext {
  /** Whether changes can be taken now. While not, they gather until {@link TreeWatch.flush}. */
  readonly ready?: () => boolean;
  readonly budget?: WatchBudget;
  readonly notices?: WatchEventQueue;
  readonly slots?: Semaphore;
  readonly signal?: AbortSignal;
  readonly maxChanges?: number;
  readonly maxPendingNames?: number;
  readonly rootCheckMs?: number;
  readonly retryMs?: number;
}

/**
 * Watches a file or directory that exists. Changes after the promise settles are told, in batches; folding all of them over the
 * state of that moment gives the names that exist, unless a batch says `overflow`: then the client has to look for itself.
 *
 * It stays when the root goes: that is told as a deletion, and the root is told as created when it comes back. A tree that
 * outgrows what may be watched is told as overflow at regular intervals until it fits again.
 */
export async function watchTree(
  path: NativePath,
  options: TreeWatchOptions,
  listener: (batch: ChangeBatch) => void,
  means: TreeWatchContext = {},
): Promise<TreeWatch> {
  if (options.debounceMs > WATCH_MAX_DEBOUNCE_MS) {
    throw refused(`debounceMs may be at most ${WATCH_MAX_DEBOUNCE_MS}, not ${options.debounceMs}`);
  }
  const excluded = exclusionBelow(path, options.exclude);
  const notices = means.notices ?? (await processEventQueue());
  const { maxPendingNames } = means;
  const tree = {
    recursive: options.recursive,
    excluded,
    notices,
    budget: means.budget ?? new WatchBudget(),
    slots: means.slots ?? new Semaphore(WATCH_CHECKS_PER_CONNECTION),
    ...(maxPendingNames === undefined ? {} : { maxPendingNames }),
  };
  const watch = new TreeWatch(path, tree, options.debounceMs, listener, means);
  means.signal?.addEventListener('abort', () => watch.close(), { once: true });
  if (means.signal?.aborted) watch.close();
  await watch.start();
  return watch;
}

export class TreeWatch {
  readonly #path: NativePath;
  readonly #treeOptions: Omit<TreeSnapshotOptions, 'onNotice'>;
  readonly #debounceMs: number;
  readonly #listener: (batch: ChangeBatch) => void;
  readonly #means: TreeWatchContext;
  readonly #rootCheck: NodeJS.Timeout;
  readonly #endSuspicion: () => void;
  /** Null while the tree does not fit. */
  #tree: TreeSnapshot | null = null;
  #timer: NodeJS.Timeout | null = null;
  #isLooking = true;
  #closed = false;
  /** Found, and not taken by the listener yet; nothing more is looked for meanwhile. */
  #waiting: ChangeBatch[] = [];

  /** For {@link watchTree}; `start` comes next. */
  constructor(
    path: NativePath,
    treeOptions: Omit<TreeSnapshotOptions, 'onNotice'>,
    debounceMs: number,
    listener: (batch: ChangeBatch) => void,
    means: TreeWatchContext,
  ) {
    this.#path = path;
    this.#treeOptions = treeOptions;
    this.#debounceMs = debounceMs;
    this.#listener = listener;
    this.#means = means;
    this.#endSuspicion = treeOptions.notices.onPossibleLoss(() => this.#tree?.doubtAll());
    this.#rootCheck = setInterval(() => {
      this.#tree?.checkRoot();
      this.#wake();
    }, means.rootCheckMs ?? WATCH_ROOT_CHECK_MS).unref();
  }

  async start(): Promise<void> {
    try {
      await this.#learn();
    } catch (error) {
      this.close();
      throw error instanceof WatchLimitError ? new FileError('refused', error.message) : toFileError(error);
    }
    this.#isLooking = false;
    this.#wake();
  }

  /** To be called when the listener can take changes again. */
  flush(): void {
    if (!this.#isLooking) this.#deliver();
  }

  /** Nothing is told after this. */
  close(): void {
    this.#closed = true;
    this.#endSuspicion();
    clearInterval(this.#rootCheck);
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#tree?.close();
    this.#tree = null;
    this.#waiting = [];
  }

  /** Starts the time in which changes gather, unless it runs, or something else has to come first. */
  #wake(): void {
    if (this.#closed || this.#isLooking || this.#timer !== null || this.#waiting.length > 0) return;
    if (this.#tree === null) this.#timer = this.#after(this.#means.retryMs ?? WATCH_RETRY_MS);
    else if (this.#tree.isStale) this.#timer = this.#after(this.#debounceMs);
  }

  #after(milliseconds: number): NodeJS.Timeout {
    const timer = setTimeout(() => {
      this.#timer = null;
      if (this.#isReady()) void this.#look();
    }, milliseconds);
    return timer.unref();
  }

  async #look(): Promise<void> {
    this.#isLooking = true;
    const changes = new ChangeList(this.#means.maxChanges);
    try {
      if (this.#tree === null) {
        changes.markIncomplete();
        await this.#learn();
      } else {
        await this.#tree.reconcile(changes);
      }
      this.#waiting = changes.batches(WATCH_NOTIFICATION_CHANGES);
    } catch {
      // The tree outgrew a limit, or its root is gone since. What is known of it is no longer kept up.
      this.#tree?.close();
      this.#tree = null;
      this.#waiting = [{ changes: [], overflow: true }];
    }
    this.#isLooking = false;
    this.#deliver();
  }

  async #learn(): Promise<void> {
    const tree = new TreeSnapshot(this.#path, { ...this.#treeOptions, onNotice: () => this.#wake() });
    this.#tree = this.#closed ? null : tree;
    if (this.#tree !== null) await tree.learn(new ChangeList(0));
  }

  #deliver(): void {
    while (!this.#closed && this.#waiting.length > 0 && this.#isReady())
      this.#listener(this.#waiting.shift()!);
    this.#wake();
  }

  #isReady(): boolean {
    return this.#means.ready?.() ?? true;
  }
}
