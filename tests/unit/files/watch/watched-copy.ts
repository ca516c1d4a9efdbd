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

/** What a client knows of a tree that it only follows by the changes it is told. */
export class WatchedCopy {
  readonly root: NativePath;
  /** Every change as `kind relative/path`, in order. */
  readonly told: string[] = [];
  /** Changes that do not fit what is known: something created that exists, or gone that does not. */
  readonly misfits: string[] = [];
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
      this.told.push(text);
      if (!isWithin(path, this.root) || this.#names.has(path) === (kind === 'created'))
        this.misfits.push(text);
      if (kind === 'created') this.#names.add(path);
      if (kind === 'deleted') this.#names.delete(path);
    }
    if (batch.overflow) this.overflows += 1;
  };

  get names(): string[] {
    return [...this.#names].sort();
  }

  /** Waits until all that is known is what there is, in a tree that nobody changes any more. */
  async settled(limitMs?: number): Promise<void> {
    const there: string[] = await listTree(this.root);
    const isTrue = () => this.#names.size === there.length && isDeepStrictEqual(this.names, there);
    await waitFor(`the copy of ${this.root} to be true`, isTrue, limitMs);
  }

  async heard(...changes: string[]): Promise<void> {
    await waitFor(`${changes.join(', ')}`, () => changes.every((change) => this.told.includes(change))).catch(
      (error) => {
        throw new Error(`${(error as Error).message}; told were: ${this.told.join(', ')}`);
      },
    );
  }

  forgetTold(): void {
    this.told.length = 0;
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

/** Loses events on demand, and says so on demand. */
export class DeafQueue extends WatchEventQueue {
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

/** How many inotify watches this process has. */
export async function inotifyWatches(): Promise<number> {
  let count = 0;
  for (const name of await readdir('/proc/self/fdinfo')) {
    const text = await readFile(`/proc/self/fdinfo/${name}`, 'latin1').catch(() => '');
    count += text.match(/^inotify wd:/gm)?.length ?? 0;
  }
  return count;
}
