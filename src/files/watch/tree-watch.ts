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
import { Exclusion } from './exclusion.ts';
import { TreeSnapshot, type TreeSnapshotOptions } from './tree-snapshot.ts';
import { WatchBudget, WatchLimitError } from './watch-budget.ts';

export interface TreeWatchOptions {
  /** Watch everything below a directory, or only its own entries. Has no effect for a file. */
  readonly recursive: boolean;
  /** Globs of paths, relative to the root, that are neither watched nor reported. */
  readonly exclude: readonly string[];
  /** How long changes are collected, counted from the first one. */
  readonly debounceMs: number;
}

/** Dependencies and limits of a watch. All have defaults. */
export interface TreeWatchContext {
  /** Whether the listener accepts changes now. Otherwise they are kept until {@link TreeWatch.flush}. */
  readonly ready?: () => boolean;
  readonly budget?: WatchBudget;
  readonly events?: WatchEventQueue;
  readonly slots?: Semaphore;
  readonly signal?: AbortSignal;
  readonly maxChanges?: number;
  readonly maxPendingNames?: number;
  readonly maxMatchSteps?: number;
  readonly rootCheckMs?: number;
  readonly retryMs?: number;
}

/**
 * Watches an existing file or directory. Changes after the promise settles are reported in batches. Applying all of them to the
 * state at that moment gives the existing names, unless a batch has `overflow`: then the client has to rescan.
 *
 * The watch stays active when the root disappears: it reports a deletion, and later a creation when the root reappears. A tree that
 * exceeds the limits is reported as overflow at regular intervals until it fits again.
 */
export async function watchTree(
  path: NativePath,
  options: TreeWatchOptions,
  listener: (batch: ChangeBatch) => void,
  context: TreeWatchContext = {},
): Promise<TreeWatch> {
  if (options.debounceMs > WATCH_MAX_DEBOUNCE_MS) {
    throw refused(`debounceMs may be at most ${WATCH_MAX_DEBOUNCE_MS}, not ${options.debounceMs}`);
  }
  const events = context.events ?? (await processEventQueue());
  const { maxPendingNames } = context;
  const tree = {
    recursive: options.recursive,
    exclusion: new Exclusion(path, options.exclude, context.maxMatchSteps),
    events,
    budget: context.budget ?? new WatchBudget(),
    slots: context.slots ?? new Semaphore(WATCH_CHECKS_PER_CONNECTION),
    ...(maxPendingNames === undefined ? {} : { maxPendingNames }),
  };
  const watch = new TreeWatch(path, tree, options.debounceMs, listener, context);
  context.signal?.addEventListener('abort', () => watch.close(), { once: true });
  if (context.signal?.aborted) watch.close();
  await watch.start();
  return watch;
}

export class TreeWatch {
  readonly #path: NativePath;
  readonly #treeOptions: Omit<TreeSnapshotOptions, 'onEvent'>;
  readonly #debounceMs: number;
  readonly #listener: (batch: ChangeBatch) => void;
  readonly #context: TreeWatchContext;
  readonly #rootCheck: NodeJS.Timeout;
  readonly #stopLossListener: () => void;
  /** Null while the tree exceeds the limits. */
  #tree: TreeSnapshot | null = null;
  #timer: NodeJS.Timeout | null = null;
  #isChecking = true;
  #closed = false;
  /** Changes that the listener has not accepted yet. No checks run meanwhile. */
  #waiting: ChangeBatch[] = [];

  /** Only {@link watchTree} calls it, followed by `start`. */
  constructor(
    path: NativePath,
    treeOptions: Omit<TreeSnapshotOptions, 'onEvent'>,
    debounceMs: number,
    listener: (batch: ChangeBatch) => void,
    context: TreeWatchContext,
  ) {
    this.#path = path;
    this.#treeOptions = treeOptions;
    this.#debounceMs = debounceMs;
    this.#listener = listener;
    this.#context = context;
    this.#stopLossListener = treeOptions.events.onPossibleLoss(() => this.#tree?.markAllStale());
    this.#rootCheck = setInterval(() => {
      this.#tree?.checkRoot();
      this.#wake();
    }, context.rootCheckMs ?? WATCH_ROOT_CHECK_MS).unref();
  }

  async start(): Promise<void> {
    try {
      await this.#scan();
    } catch (error) {
      this.close();
      throw error instanceof WatchLimitError ? new FileError('refused', error.message) : toFileError(error);
    }
    this.#isChecking = false;
    this.#wake();
  }

  /** Called when the listener accepts changes again. */
  flush(): void {
    if (!this.#isChecking) this.#deliver();
  }

  /** No changes are reported after this. */
  close(): void {
    this.#closed = true;
    this.#stopLossListener();
    clearInterval(this.#rootCheck);
    if (this.#timer !== null) clearTimeout(this.#timer);
    this.#tree?.close();
    this.#tree = null;
    this.#waiting = [];
  }

  /** Starts the debounce timer, unless it runs or something else has to come first. */
  #wake(): void {
    if (this.#closed || this.#isChecking || this.#timer !== null || this.#waiting.length > 0) return;
    if (this.#tree === null) this.#timer = this.#after(this.#context.retryMs ?? WATCH_RETRY_MS);
    else if (this.#tree.isStale) this.#timer = this.#after(this.#debounceMs);
  }

  #after(milliseconds: number): NodeJS.Timeout {
    const timer = setTimeout(() => {
      this.#timer = null;
      if (this.#isReady()) void this.#check();
    }, milliseconds);
    return timer.unref();
  }

  async #check(): Promise<void> {
    this.#isChecking = true;
    const changes = new ChangeList(this.#context.maxChanges);
    try {
      if (this.#tree === null) {
        changes.markIncomplete();
        await this.#scan();
      } else {
        await this.#tree.reconcile(changes);
      }
      this.#waiting = changes.batches(WATCH_NOTIFICATION_CHANGES);
    } catch {
      // The tree exceeded a limit or its root disappeared. The snapshot is no longer updated.
      this.#tree?.close();
      this.#tree = null;
      this.#waiting = [{ changes: [], overflow: true }];
    }
    this.#isChecking = false;
    this.#deliver();
  }

  async #scan(): Promise<void> {
    const tree = new TreeSnapshot(this.#path, { ...this.#treeOptions, onEvent: () => this.#wake() });
    this.#tree = this.#closed ? null : tree;
    if (this.#tree !== null) await tree.scan(new ChangeList(0));
  }

  #deliver(): void {
    while (!this.#closed && this.#waiting.length > 0 && this.#isReady())
      this.#listener(this.#waiting.shift()!);
    this.#wake();
  }

  #isReady(): boolean {
    return this.#context.ready?.() ?? true;
  }
}
