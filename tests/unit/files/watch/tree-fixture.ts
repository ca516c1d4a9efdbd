import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import {
  type TreeWatch,
  type TreeWatchContext,
  type TreeWatchOptions,
  watchTree,
} from '../../../../src/files/watch/tree-watch.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { WatchedCopy } from './watched-copy.ts';

export const OPTIONS: TreeWatchOptions = { recursive: true, exclude: [], debounceMs: 10 };

/** A directory to watch, and another one next to it. */
export class TreeFixture {
  readonly base: string;
  readonly root: string;
  readonly outside: string;
  /** Closed with the fixture. */
  readonly watches: TreeWatch[] = [];

  private constructor(base: string) {
    this.base = base;
    this.root = join(base, 'root');
    this.outside = join(base, 'outside');
  }

  static async open(): Promise<TreeFixture> {
    const fixture = new TreeFixture(await mkdtemp(join(tmpdir(), 'tree-watch-')));
    await mkdir(fixture.root);
    await mkdir(fixture.outside);
    return fixture;
  }

  async close(): Promise<void> {
    for (const watch of this.watches) watch.close();
    await rm(this.base, { recursive: true, force: true });
  }

  async follow(path: string, options: Partial<TreeWatchOptions> = {}, means: TreeWatchContext = {}) {
    const copy = new WatchedCopy(path);
    await copy.look();
    let isHeld = false;
    const ready = () => !isHeld && (means.ready?.() ?? true);
    const watch = await watchTree(copy.root, { ...OPTIONS, ...options }, copy.apply, { ...means, ready });
    this.watches.push(watch);
    /** Makes changes that the watch checks together, however long they take. */
    const together = async (makeChanges: () => Promise<void>): Promise<void> => {
      isHeld = true;
      await makeChanges();
      isHeld = false;
      watch.flush();
    };
    return { copy, watch, together };
  }

  /** Makes a change that is reported after all earlier ones, so that the watch has seen those. */
  async mark(copy: WatchedCopy): Promise<void> {
    const name = `mark-${Math.random()}`;
    await writeFile(join(this.root, name), '');
    await waitFor('the mark', () => copy.reported.some((change) => change === `created ${name}`));
  }
}

/** Writes a file and creates its parent directories. */
export async function makeFile(...names: string[]): Promise<string> {
  const path = join(...names);
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, 'content');
  return path;
}
