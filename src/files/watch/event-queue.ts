import { watch } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { INOTIFY_QUEUE_EVENTS } from '../limits.ts';
import { type NativePath, systemPath } from '../native-path.ts';

/** `change` concerns content or attributes. `rename` concerns the name: it appeared, disappeared or names another file. */
export type WatchEventKind = 'change' | 'rename';

/**
 * Receives the name, in bytes, of an entry of the watched directory. An event of the directory itself has the last name of its
 * path.
 */
export type WatchEventListener = (kind: WatchEventKind, name: string | null) => void;

export interface WatchEventSource {
  /** No events are delivered after this. */
  close(): void;
}

/**
 * The inotify events of single directories and files, with detection of lost events.
 *
 * All watches of an event loop share one kernel queue, and Node ignores the kernel's overflow event (IN_Q_OVERFLOW). But a full
 * queue arrives in one turn of the event loop, so a large burst is taken as a sign of an overflow. The threshold is well below the
 * queue length, because events of watches that were closed in the meantime are not counted here.
 */
export class WatchEventQueue {
  readonly #burstLimit: number;
  readonly #lossListeners = new Set<() => void>();
  #burst = 0;

  constructor(queueLength: number) {
    this.#burstLimit = Math.max(1, Math.floor(queueLength / BURST_SHARE));
  }

  /**
   * Watches one directory without its subdirectories, or one file. Follows links. Throws the system's error. The call is
   * synchronous: callers first stat the path asynchronously, so that a dead mount does not block the process here.
   */
  open(path: NativePath, listener: WatchEventListener): WatchEventSource {
    let closed = false;
    const watcher = watch(systemPath(path), { persistent: false, encoding: 'latin1' }, (kind, name) => {
      this.#count();
      if (!closed) listener(kind, name);
    });
    watcher.on('error', () => {
      if (!closed) this.#reportLoss();
    });
    return {
      close: () => {
        if (closed) return;
        closed = true;
        // Events that are already queued are read and counted before the watch is removed, so that a full queue is not missed.
        setImmediate(() => watcher.close());
      },
    };
  }

  /** Calls `listener` whenever events may have been lost. Returns the function that removes it. */
  onPossibleLoss(listener: () => void): () => void {
    // A new function, so that one listener can be added twice.
    const own = () => listener();
    this.#lossListeners.add(own);
    return () => this.#lossListeners.delete(own);
  }

  #count(): void {
    if (this.#burst === 0) {
      setImmediate(() => {
        this.#burst = 0;
      });
    }
    this.#burst += 1;
    if (this.#burst === this.#burstLimit) this.#reportLoss();
  }

  #reportLoss(): void {
    // At the end of the burst, when it can lose no further events.
    setImmediate(() => {
      for (const listener of [...this.#lossListeners]) listener();
    });
  }
}

/** The queue of this process's event loop. */
export function processEventQueue(): Promise<WatchEventQueue> {
  shared ??= queueLength().then((length) => new WatchEventQueue(length));
  return shared;
}

/** A burst of this fraction of the queue length counts as a possible overflow: 1/4. */
const BURST_SHARE = 4;

let shared: Promise<WatchEventQueue> | undefined;

async function queueLength(): Promise<number> {
  const text = await readFile('/proc/sys/fs/inotify/max_queued_events', 'latin1').catch(() => '');
  const length = Number.parseInt(text, 10);
  return length > 0 ? length : INOTIFY_QUEUE_EVENTS;
}
