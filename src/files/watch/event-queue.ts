import { watch } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { INOTIFY_QUEUE_EVENTS } from '../limits.ts';
import { type NativePath, systemPath } from '../native-path.ts';

/** `change` is about content or attributes, `rename` about the name: it came, went, or stands for another file. */
export type WatchEventKind = 'change' | 'rename';

/** Told of a name, in bytes, in the watched directory. An event of the directory itself comes under its own last name. */
export type WatchEventListener = (kind: WatchEventKind, name: string | null) => void;

export interface WatchEventSource {
  /** Nothing is told after this. */
  close(): void;
}

/**
 * The events of single directories and files, and the suspicion that some were lost.
 *
 * All watches of an event loop share one kernel queue, and Node passes over the kernel's word that it overflowed. But a full queue
 * arrives in one go, so that a burst which could come from one is the sign. It is taken well below the full size, because events
 * of watches that were closed in the meantime are not seen here.
 */
export class WatchEventQueue {
  readonly #burstLimit: number;
  readonly #suspicious = new Set<() => void>();
  #burst = 0;

  constructor(queueLength: number) {
    this.#burstLimit = Math.max(1, Math.floor(queueLength / BURST_SHARE));
  }

  /**
   * Watches one directory, not what lies deeper, or one file; links are followed. Throws what the system says. The call is
   * synchronous: callers look at the path asynchronously first, so that a dead mount does not stop the process here.
   */
  open(path: NativePath, listener: WatchEventListener): WatchEventSource {
    let closed = false;
    const watcher = watch(systemPath(path), { persistent: false, encoding: 'latin1' }, (kind, name) => {
      this.#count();
      if (!closed) listener(kind, name);
    });
    watcher.on('error', () => {
      if (!closed) this.#suspect();
    });
    return {
      close: () => {
        if (closed) return;
        closed = true;
        // What is queued now is read, and counted, before the watch goes: a full queue does not disappear unseen.
        setImmediate(() => watcher.close());
      },
    };
  }

  /** Calls back whenever events may have been lost; returns how to stop that. */
  onPossibleLoss(listener: () => void): () => void {
    // Each subscription is its own, even of the same function.
    const own = () => listener();
    this.#suspicious.add(own);
    return () => this.#suspicious.delete(own);
  }

  #count(): void {
    if (this.#burst === 0) {
      setImmediate(() => {
        this.#burst = 0;
      });
    }
    this.#burst += 1;
    if (this.#burst === this.#burstLimit) this.#suspect();
  }

  #suspect(): void {
    // At the end of the burst, when nothing more can be lost to it.
    setImmediate(() => {
      for (const listener of [...this.#suspicious]) listener();
    });
  }
}

/** The queue of this process's event loop. */
export function processEventQueue(): Promise<WatchEventQueue> {
  shared ??= queueLength().then((length) => new WatchEventQueue(length));
  return shared;
}

/** A burst of this part of the queue's length is suspicious. */
const BURST_SHARE = 4;

let shared: Promise<WatchEventQueue> | undefined;

async function queueLength(): Promise<number> {
  const text = await readFile('/proc/sys/fs/inotify/max_queued_events', 'latin1').catch(() => '');
  const length = Number.parseInt(text, 10);
  return length > 0 ? length : INOTIFY_QUEUE_EVENTS;
}
