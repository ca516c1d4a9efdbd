import { chmod, mkdir, mkdtemp, rename, rm, rmdir, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { FileError } from '../../../../src/files/errors.ts';
import { NoticeQueue } from '../../../../src/files/watch/notice-queue.ts';
import {
  type TreeWatch,
  type TreeWatchMeans,
  type TreeWatchOptions,
  watchTree,
} from '../../../../src/files/watch/tree-watch.ts';
import { WatchBudget } from '../../../../src/files/watch/watch-budget.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { DeafQueue, inotifyWatches, WatchedCopy } from './watched-copy.ts';

const OPTIONS: TreeWatchOptions = { recursive: true, exclude: [], debounceMs: 10 };

let base: string;
let root: string;
let outside: string;
let watches: TreeWatch[];

beforeEach(async () => {
  base = await mkdtemp(join(tmpdir(), 'tree-watch-'));
  root = join(base, 'root');
  outside = join(base, 'outside');
  await mkdir(root);
  await mkdir(outside);
  watches = [];
});

afterEach(async () => {
  for (const watch of watches) watch.close();
  await rm(base, { recursive: true, force: true });
});

async function follow(path: string, options: Partial<TreeWatchOptions> = {}, means: TreeWatchMeans = {}) {
  const copy = new WatchedCopy(path);
  await copy.look();
  const watch = await watchTree(copy.root, { ...OPTIONS, ...options }, copy.apply, means);
  watches.push(watch);
  return { copy, watch };
}

async function makeFile(...names: string[]): Promise<string> {
  const path = join(...names);
  await mkdir(dirname(path), { recursive: true });
  await writeFile(path, 'content');
  return path;
}

/** A change that is told after all that came before it: the watch has seen those. */
async function mark(copy: WatchedCopy, directory = root): Promise<void> {
  const name = `mark-${Math.random()}`;
  await writeFile(join(directory, name), '');
  await waitFor('the mark', () => copy.told.some((change) => change === `created ${name}`));
}

describe('what is told', () => {
  test('files that come, change and go', async () => {
    await makeFile(root, 'old');
    const { copy } = await follow(root);
    await writeFile(join(root, 'new'), 'x');
    await copy.heard('created new');
    await writeFile(join(root, 'old'), 'y');
    await copy.heard('modified old');
    await rm(join(root, 'old'));
    await copy.heard('deleted old');
    expect(copy.misfits).toEqual([]);
  });

  test('changes of one file within the time that they gather', async () => {
    await makeFile(root, 'changed-and-removed');
    await makeFile(root, 'removed-and-made');
    await makeFile(root, 'becomes-directory');
    const { copy } = await follow(root, { debounceMs: 300 });
    await writeFile(join(root, 'made-and-changed'), '1');
    await writeFile(join(root, 'made-and-changed'), '2');
    await writeFile(join(root, 'made-and-removed'), '1');
    await rm(join(root, 'made-and-removed'));
    await writeFile(join(root, 'changed-and-removed'), '2');
    await rm(join(root, 'changed-and-removed'));
    await rm(join(root, 'removed-and-made'));
    await writeFile(join(root, 'removed-and-made'), '2');
    await rm(join(root, 'becomes-directory'));
    await mkdir(join(root, 'becomes-directory'));
    await waitFor('the changes', () => copy.told.length > 0);
    expect(copy.told.toSorted()).toEqual([
      'created becomes-directory',
      'created made-and-changed',
      'deleted becomes-directory',
      'deleted changed-and-removed',
      'modified removed-and-made',
    ]);
    expect(copy.told.indexOf('deleted becomes-directory')).toBeLessThan(
      copy.told.indexOf('created becomes-directory'),
    );
  });

  test('a file renamed over another is a deletion and a modification', async () => {
    await makeFile(root, 'a');
    await makeFile(root, 'b');
    const { copy } = await follow(root);
    await rename(join(root, 'a'), join(root, 'b'));
    await copy.heard('deleted a', 'modified b');
    expect(copy.told).toHaveLength(2);
  });

  test('a directory that is filled at once, and what happens in it later', async () => {
    const { copy } = await follow(root);
    for (let i = 0; i < 20; i++) await makeFile(root, `a${i}`, 'b', 'c', 'd', 'file');
    await copy.settled();
    await writeFile(join(root, 'a7/b/c/d/file'), 'later');
    await copy.heard('modified a7/b/c/d/file');
    expect(copy.misfits).toEqual([]);
  });

  test('a directory moved in is known with all that it holds', async () => {
    const { copy } = await follow(root);
    await makeFile(outside, 'box', 'deep', 'file');
    await rename(join(outside, 'box'), join(root, 'box'));
    await copy.heard('created box', 'created box/deep', 'created box/deep/file');
    await writeFile(join(root, 'box/deep/file'), 'later');
    await copy.heard('modified box/deep/file');
    expect(copy.misfits).toEqual([]);
  });

  test('a directory moved out is gone with all that it held, and not followed', async () => {
    await makeFile(root, 'box', 'deep', 'file');
    const { copy } = await follow(root);
    await rename(join(root, 'box'), join(outside, 'box'));
    await copy.heard('deleted box/deep/file', 'deleted box/deep', 'deleted box');
    await writeFile(join(outside, 'box/deep/file'), 'later');
    await mark(copy);
    expect(copy.told.filter((change) => change.startsWith('modified'))).toEqual([]);
    expect(copy.misfits).toEqual([]);
  });

  test('a renamed directory is followed under its new name', async () => {
    await makeFile(root, 'one', 'deep', 'file');
    const { copy } = await follow(root);
    await rename(join(root, 'one'), join(root, 'two'));
    await copy.heard('created two/deep/file', 'deleted one/deep/file');
    copy.forgetTold();
    await writeFile(join(root, 'two/deep/file'), 'later');
    await copy.heard('modified two/deep/file');
    expect(copy.told).toEqual(['modified two/deep/file']);
    expect(copy.misfits).toEqual([]);
  });

  test('a directory put in the place of another: its files are others', async () => {
    await makeFile(root, 'box', 'deep', 'same');
    await makeFile(root, 'box', 'deep', 'old');
    await makeFile(outside, 'box', 'deep', 'same');
    await makeFile(outside, 'box', 'deep', 'new');
    const { copy } = await follow(root, { debounceMs: 100 });
    await rename(join(root, 'box'), join(outside, 'away'));
    await rename(join(outside, 'box'), join(root, 'box'));
    await copy.heard(
      'modified box',
      'deleted box/deep/old',
      'modified box/deep/same',
      'created box/deep/new',
    );
    await writeFile(join(root, 'box/deep/new'), 'later');
    await copy.heard('modified box/deep/new');
    copy.forgetTold();
    await writeFile(join(outside, 'away/deep/same'), 'later');
    await mark(copy);
    expect(copy.told).toHaveLength(1);
    expect(copy.misfits).toEqual([]);
  });

  test('a directory removed and made again is watched again', async () => {
    await mkdir(join(root, 'box'));
    const { copy } = await follow(root, { debounceMs: 100 });
    await rmdir(join(root, 'box'));
    await mkdir(join(root, 'box'));
    await mark(copy);
    await writeFile(join(root, 'box/file'), '');
    await copy.heard('created box/file');
    await copy.settled();
  });

  test('an entry with the name of its directory', async () => {
    await makeFile(root, 'twin', 'file');
    const { copy } = await follow(root);
    await mkdir(join(root, 'twin/twin'));
    await writeFile(join(root, 'twin/twin/twin'), '');
    await copy.heard('created twin/twin/twin');
    await mark(copy);
    expect(copy.told.filter((change) => change.includes('file'))).toEqual([]);
  });

  test('the attributes of a file count, those of a directory do not', async () => {
    await makeFile(root, 'box', 'file');
    const { copy } = await follow(root);
    await chmod(join(root, 'box'), 0o700);
    await chmod(join(root, 'box/file'), 0o600);
    await copy.heard('modified box/file');
    await mark(copy);
    expect(copy.told).toHaveLength(2);
  });

  test('a link to a directory is an entry and not entered', async () => {
    await makeFile(outside, 'file');
    const { copy } = await follow(root);
    await symlink(outside, join(root, 'link'));
    await copy.heard('created link');
    await writeFile(join(outside, 'file'), 'later');
    await mark(copy);
    expect(copy.told).toHaveLength(2);
  });

  test('names that are not UTF-8', async () => {
    const { copy } = await follow(root);
    const directory = Buffer.concat([Buffer.from(`${root}/`), Buffer.from([0xff, 0xfe])]);
    await mkdir(directory);
    await writeFile(Buffer.concat([directory, Buffer.from('/ü')]), '');
    await copy.heard('created \xff\xfe', 'created \xff\xfe/\xc3\xbc');
    await rm(directory, { recursive: true });
    await copy.heard('deleted \xff\xfe');
    expect(copy.misfits).toEqual([]);
  });
});

describe('what is left out', () => {
  test('excluded files and trees, before and after they exist', async () => {
    await makeFile(root, 'node_modules', 'package', 'file');
    await makeFile(root, 'src', 'a.log');
    const { copy } = await follow(root, { exclude: ['**/node_modules/**', '**/*.log', 'only/at/root/'] });
    await writeFile(join(root, 'node_modules/package/file'), 'x');
    await writeFile(join(root, 'src/a.log'), 'x');
    await makeFile(root, 'src', 'node_modules', 'package', 'file');
    await makeFile(root, 'only', 'at', 'root', 'file');
    await makeFile(root, 'src', 'kept');
    await mark(copy);
    await copy.heard('created src/kept', 'created only/at');
    expect(copy.told.filter((change) => /node_modules|log|only\/at\//.test(change))).toEqual([]);
  });

  test('what lies deeper, when the watch is not recursive', async () => {
    await makeFile(root, 'box', 'file');
    const { copy } = await follow(root, { recursive: false });
    await writeFile(join(root, 'box/file'), 'x');
    await makeFile(root, 'box', 'new');
    await makeFile(root, 'other', 'file');
    await mark(copy);
    expect(copy.told.filter((change) => !change.includes('mark'))).toEqual(['created other']);
    await rm(join(root, 'box'), { recursive: true });
    await copy.heard('deleted box');
  });

  test.each([
    ['an empty glob', { exclude: [''] }, 'glob `` names nothing'],
    ['too many globs', { exclude: Array<string>(257).fill('a') }, 'globs stand for more than 256 patterns'],
    ['a long glob', { exclude: ['a'.repeat(4_097)] }, 'a glob is longer than 4096 characters'],
    ['a long debounce', { debounceMs: 5001 }, 'debounceMs may be at most 5000, not 5001'],
  ])('%s is refused', async (_, options, message) => {
    await expect(follow(root, options)).rejects.toMatchObject({ kind: 'refused', message });
  });
});

describe('the root', () => {
  test('a single file: changes, replacement, removal and return, and nothing beside it', async () => {
    const file = await makeFile(root, 'file');
    const { copy } = await follow(file);
    await makeFile(root, 'other');
    await writeFile(file, 'x');
    await copy.heard('modified .');
    copy.forgetTold();
    await rename(await makeFile(root, 'next'), file);
    await copy.heard('modified .');
    await rm(file);
    await copy.heard('deleted .');
    await writeFile(file, 'again');
    await copy.heard('created .');
    expect(copy.misfits).toEqual([]);
  });

  test('a link to a file elsewhere', async () => {
    const file = await makeFile(outside, 'file');
    await symlink(file, join(root, 'link'));
    const { copy } = await follow(join(root, 'link'));
    await writeFile(file, 'x');
    await copy.heard('modified .');
    copy.forgetTold();
    await rename(await makeFile(outside, 'next'), file);
    await copy.heard('modified .');
  });

  test('a link to a directory is followed under its own name', async () => {
    await symlink(outside, join(root, 'link'));
    const { copy } = await follow(join(root, 'link'));
    await makeFile(outside, 'file');
    await copy.heard('created file');
  });

  test('a directory that goes and comes back', async () => {
    await makeFile(root, 'box', 'file');
    const { copy } = await follow(root);
    await rm(root, { recursive: true });
    await copy.heard('deleted box/file', 'deleted box', 'deleted .');
    await makeFile(root, 'again');
    await copy.heard('created .', 'created again');
    await writeFile(join(root, 'again'), 'x');
    await copy.heard('modified again');
    expect(copy.misfits).toEqual([]);
  });

  test('an ancestor that is renamed away and back', async () => {
    const inner = join(root, 'inner');
    await makeFile(inner, 'file');
    const { copy } = await follow(inner, {}, { rootCheckMs: 20 });
    await rename(base, `${base}-moved`);
    try {
      await copy.heard('deleted file', 'deleted .');
    } finally {
      await rename(`${base}-moved`, base);
    }
    await copy.heard('created .', 'created file');
    await writeFile(join(inner, 'file'), 'x');
    await copy.heard('modified file');
  });

  test('that does not exist is not found', async () => {
    const failure = await follow(join(root, 'nothing')).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(FileError);
    expect(failure).toMatchObject({ kind: 'notFound', message: 'No such file or directory (os error 2)' });
  });
});

describe('limits', () => {
  test('a burst that may have filled the kernel queue: names stay right, and the overflow is told', async () => {
    const { copy } = await follow(root, {}, { notices: new NoticeQueue(20) });
    await Promise.all(Array.from({ length: 50 }, (_, i) => makeFile(root, `d${i}`, 'file')));
    await waitFor('an overflow', () => copy.overflows > 0);
    await copy.settled();
    expect(copy.misfits).toEqual([]);
  });

  test('lost events: all that they would have told of names is found', async () => {
    await makeFile(root, 'box', 'gone');
    const deaf = new DeafQueue();
    const { copy } = await follow(root, {}, { notices: deaf });
    deaf.isDeaf = true;
    await rm(join(root, 'box'), { recursive: true });
    await makeFile(root, 'box', 'deep', 'new');
    deaf.isDeaf = false;
    deaf.confess();
    await copy.heard('deleted box/gone', 'created box/deep/new');
    expect(copy.overflows).toBe(1);
    await writeFile(join(root, 'box/deep/new'), 'later');
    await copy.heard('modified box/deep/new');
    expect(copy.misfits).toEqual([]);
  });

  test('more changes than are kept: none is told, but the overflow', async () => {
    const { copy } = await follow(root, { debounceMs: 200 }, { maxChanges: 10 });
    for (let i = 0; i < 11; i++) await writeFile(join(root, `${i}`), '');
    await waitFor('an overflow', () => copy.overflows > 0);
    expect(copy.told).toEqual([]);
    await writeFile(join(root, '3'), 'x');
    await copy.heard('modified 3');
  });

  test('more names than are noted', async () => {
    const { copy } = await follow(root, { debounceMs: 200 }, { maxNotedNames: 10 });
    for (let i = 0; i < 30; i++) await writeFile(join(root, `${i}`), '');
    await waitFor('an overflow', () => copy.overflows > 0);
    await copy.settled();
    expect(copy.misfits).toEqual([]);
  });

  test.each([
    ['files', new WatchBudget(5, 100), 'at most 5 files'],
    ['directories', new WatchBudget(100, 3), 'at most 3 directories'],
  ])('a tree with too many %s is refused and leaves no trace', async (_, budget, text) => {
    await makeFile(root, 'a', 'b', 'c', 'd', 'e');
    await expect(follow(root, {}, { budget })).rejects.toMatchObject({
      kind: 'refused',
      message: expect.stringContaining(text),
    });
    await expect(follow(outside, {}, { budget })).resolves.toBeDefined();
  });

  test('a tree that outgrows its limit is told as overflow until it fits again', async () => {
    const { copy } = await follow(root, {}, { budget: new WatchBudget(10), retryMs: 20 });
    for (let i = 0; i < 12; i++) await writeFile(join(root, `${i}`), '');
    await waitFor('overflows', () => copy.overflows > 2);
    for (let i = 0; i < 12; i++) await rm(join(root, `${i}`));
    const told = copy.told.length;
    await waitFor('a change', async () => {
      await writeFile(join(root, 'file'), '');
      return copy.told.length > told;
    });
  });
});

describe('delivery', () => {
  test('waits for a listener that is not ready, and tells every path once', async () => {
    let isReady = false;
    await makeFile(root, 'a');
    const { copy, watch } = await follow(root, {}, { ready: () => isReady, rootCheckMs: 10 });
    for (let i = 0; i < 20; i++) await writeFile(join(root, 'a'), `${i}`);
    await writeFile(join(root, 'b'), '');
    await rm(join(root, 'a'));
    expect(copy.told).toEqual([]);
    isReady = true;
    watch.flush();
    await copy.heard('created b', 'deleted a');
    expect(copy.told).toHaveLength(2);
  });

  test('stops between two batches when the listener is full', async () => {
    let room = 0;
    const copy = new WatchedCopy(root);
    await copy.look();
    let batches = 0;
    const watch = await watchTree(
      copy.root,
      { ...OPTIONS, debounceMs: 200 },
      (batch) => {
        room -= 1;
        batches += 1;
        expect(batch.changes.length).toBeLessThanOrEqual(1000);
        copy.apply(batch);
      },
      { ready: () => room > 0 },
    );
    watches.push(watch);
    await Promise.all(Array.from({ length: 2500 }, (_, i) => writeFile(join(root, `${i}`), '')));
    room = 1;
    watch.flush();
    await waitFor('the first batch', () => batches === 1);
    await writeFile(join(root, '7'), 'later');
    watch.flush();
    expect(batches).toBe(1);
    room = Number.POSITIVE_INFINITY;
    watch.flush();
    await copy.settled();
    expect(copy.misfits).toEqual([]);
  });

  test('nothing comes after close, though changes were gathering', async () => {
    const { copy, watch } = await follow(root, { debounceMs: 50 });
    const other = await follow(root, { debounceMs: 100 });
    await writeFile(join(root, 'file'), '');
    watch.close();
    await other.copy.heard('created file');
    await mark(other.copy);
    expect(copy.told).toEqual([]);
  });
});

test('a watch keeps no inotify watch after it is closed', async () => {
  await makeFile(root, 'a', 'b', 'c');
  const before = await inotifyWatches();
  const { watch } = await follow(root);
  expect(await inotifyWatches()).toBe(before + 4);
  watch.close();
  await waitFor('the watches to go', async () => (await inotifyWatches()) === before);
});
