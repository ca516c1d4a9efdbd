import { lstat, readdir, readFile } from 'node:fs/promises';
import { isDeepStrictEqual } from 'node:util';
import {
  childPath,
  isWithin,
  type NativePath,
  nativePathOfText,
  systemPath,
} from '../../../../src/files/native-path.ts';
import type { ChangeBatch } from '../../../../src/files/watch/change-list.ts';
import {
  type WatchEventListener,
  WatchEventQueue,
  type WatchEventSource,
} from '../../../../src/files/watch/event-queue.ts';
import { waitFor } from '../../../support/wait-for.ts';

/** A client's copy of a tree, built only from the reported changes. */
export class WatchedCopy {
  readonly root: NativePath;
  /** Every reported change as `kind relative/path`, in order. */
  readonly reported: string[] = [];
  /** Changes that contradict the copy: a creation of an existing entry, or a deletion of a missing one. */
  readonly contradictions: string[] = [];
  overflows = 0;
  #names = new Set<NativePath>();

  constructor(root: string) {
    this.root = nativePathOfText(root);
  }

  async look(): Promise<void> {
    this.#names = new Set(await listTree(this.root));
  }

  readonly apply = (batch: ChangeBatch): void => {
    for (const { path, kind } of batch.changes) {
      const text = `${kind} ${path === this.root ? '.' : path.slice(this.root.length + 1)}`;
      this.reported.push(text);
      if (!isWithin(path, this.root) || this.#names.has(path) === (kind === 'created'))
        this.contradictions.push(text);
      if (kind === 'created') this.#names.add(path);
      if (kind === 'deleted') this.#names.delete(path);
    }
    if (batch.overflow) this.overflows += 1;
  };

  get names(): string[] {
    return [...this.#names].sort();
  }

  /** Waits until the copy equals the tree, which no longer changes. */
  async settled(limitMs?: number): Promise<void> {
    const there: string[] = await listTree(this.root);
    const isTrue = () => this.#names.size === there.length && isDeepStrictEqual(this.names, there);
    await waitFor(`the copy of ${this.root} to be true`, isTrue, limitMs);
  }

  async heard(...changes: string[]): Promise<void> {
    await waitFor(`${changes.join(', ')}`, () =>
      changes.every((change) => this.reported.includes(change)),
    ).catch((error) => {
      throw new Error(`${(error as Error).message}; reported were: ${this.reported.join(', ')}`);
    });
  }

  forgetReported(): void {
    this.reported.length = 0;
  }
}

export async function listTree(root: NativePath): Promise<NativePath[]> {
  const found: NativePath[] = [];
  const visit = async (path: NativePath): Promise<void> => {
    const stats = await lstat(systemPath(path)).catch(() => null);
    if (stats === null) return;
    found.push(path);
    if (!stats.isDirectory()) return;
    const names = await readdir(systemPath(path), { encoding: 'latin1' }).catch(() => []);
    for (const name of names) await visit(childPath(path, name));
  };
  await visit(root);
  return found.sort();
}

/** Drops events on demand, and reports a possible loss on demand. */
export class LossyQueue extends WatchEventQueue {
  isDeaf = false;
  readonly #listeners = new Set<() => void>();

  constructor() {
    super(1_000_000);
  }

  override open(path: NativePath, listener: WatchEventListener): WatchEventSource {
    return super.open(path, (kind, name) => {
      if (!this.isDeaf) listener(kind, name);
    });
  }

  override onPossibleLoss(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  confess(): void {
    for (const listener of this.#listeners) listener();
  }
}

/** Number of inotify watches of this process. */
export async function inotifyWatches(): Promise<number> {
  let count = 0;
  for (const name of await readdir('/proc/self/fdinfo')) {
    const text = await readFile(`/proc/self/fdinfo/${name}`, 'latin1').catch(() => '');
    count += text.match(/^inotify wd:/gm)?.length ?? 0;
  }
  return count;
}
