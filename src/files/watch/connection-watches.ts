import { Semaphore } from '../../base/semaphore.ts';
import { refused } from '../errors.ts';
import { MAX_WATCHES, WATCH_CHECKS_PER_CONNECTION } from '../limits.ts';
import type { NativePath } from '../native-path.ts';
import type { ChangeBatch } from './change-list.ts';
import { type TreeWatch, type TreeWatchContext, type TreeWatchOptions, watchTree } from './tree-watch.ts';
import { WatchBudget } from './watch-budget.ts';

/** Receives the changes of a connection's watches. */
interface ChangeSink {
  deliver(watchId: string, batch: ChangeBatch): void;
  /** Whether the client keeps up. While it does not, changes are collected here, each path once. */
  ready(): boolean;
}

/** The watches of one connection, by the ids that the client chose. */
export class ConnectionWatches {
  readonly #sink: ChangeSink;
  readonly #context: TreeWatchContext;
  readonly #watches = new Map<string, OwnedWatch>();
  #disposed = false;

  /** `context` applies to all watches and replaces the defaults. */
  constructor(sink: ChangeSink, context: Omit<TreeWatchContext, 'ready' | 'signal'> = {}) {
    this.#sink = sink;
    const shared = { budget: new WatchBudget(), slots: new Semaphore(WATCH_CHECKS_PER_CONNECTION) };
    this.#context = { ...shared, ...context, ready: () => sink.ready() };
  }

  /** Resolves when the watch is active. The first changes may follow immediately. */
  async watch(watchId: string, path: NativePath, options: TreeWatchOptions): Promise<void> {
    if (this.#disposed) throw refused('the connection is closed');
    if (this.#watches.has(watchId)) throw refused(`watch id ${JSON.stringify(watchId)} is in use`);
    if (this.#watches.size >= MAX_WATCHES) {
      throw refused(`a connection may have at most ${MAX_WATCHES} watches; end one with fs/unwatch first`);
    }
    const owned: OwnedWatch = { ending: new AbortController(), tree: null };
    this.#watches.set(watchId, owned);
    try {
      owned.tree = await watchTree(path, options, (batch) => this.#sink.deliver(watchId, batch), {
        ...this.#context,
        signal: owned.ending.signal,
      });
    } catch (error) {
      if (!owned.ending.signal.aborted) {
        this.#watches.delete(watchId);
        throw error;
      }
    }
    if (owned.ending.signal.aborted) throw refused('the watch was removed before it was active');
  }

  /** Ends a watch and frees its id. An unknown id is not an error. */
  unwatch(watchId: string): void {
    this.#watches.get(watchId)?.ending.abort();
    this.#watches.delete(watchId);
  }

  /** Called when the client keeps up again. */
  flush(): void {
    for (const { tree } of this.#watches.values()) {
      if (!this.#sink.ready()) return;
      tree?.flush();
    }
  }

  /** Ends all watches permanently. */
  dispose(): void {
    this.#disposed = true;
    for (const watchId of [...this.#watches.keys()]) this.unwatch(watchId);
  }
}

interface OwnedWatch {
  /** Aborted by `unwatch`, possibly before the watch is active. */
  readonly ending: AbortController;
  tree: TreeWatch | null;
}
