import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { FairShares } from '../../../../src/base/fair-shares.ts';
import { GLOB_STEPS_PER_TURN } from '../../../../src/files/limits.ts';
import { nativePathOfText } from '../../../../src/files/native-path.ts';
import { WatchEventQueue } from '../../../../src/files/watch/event-queue.ts';
import { watchTree } from '../../../../src/files/watch/tree-watch.ts';
import { WatchBudget } from '../../../../src/files/watch/watch-budget.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { makeFile, OPTIONS, TreeFixture } from './tree-fixture.ts';
import { LossyQueue, WatchedCopy } from './watched-copy.ts';

let fixture: TreeFixture;
let root: string;
let outside: string;
beforeEach(async () => {
  fixture = await TreeFixture.open();
  root = fixture.root;
  outside = fixture.outside;
});
afterEach(() => fixture.close());

describe('limits', () => {
  test('keeps names right and reports an overflow after a burst that may have filled the kernel queue', async () => {
    const { copy } = await fixture.follow(root, {}, { events: new WatchEventQueue(20) });
    await Promise.all(Array.from({ length: 50 }, (_, i) => makeFile(root, `d${i}`, 'file')));
    await waitFor('an overflow', () => copy.overflows > 0);
    await copy.settled();
    expect(copy.contradictions).toEqual([]);
  });

  test('finds all changes of names after lost events', async () => {
    await makeFile(root, 'box', 'gone');
    const deaf = new LossyQueue();
    const { copy } = await fixture.follow(root, {}, { events: deaf });
    deaf.isDeaf = true;
    await rm(join(root, 'box'), { recursive: true });
    await makeFile(root, 'box', 'deep', 'new');
    deaf.isDeaf = false;
    deaf.confess();
    await copy.heard('deleted box/gone', 'created box/deep/new');
    expect(copy.overflows).toBe(1);
    await writeFile(join(root, 'box/deep/new'), 'later');
    await copy.heard('modified box/deep/new');
    expect(copy.contradictions).toEqual([]);
  });

  test('reports only an overflow when there are more changes than the limit', async () => {
    const { copy, together } = await fixture.follow(root, {}, { maxChanges: 10 });
    await together(async () => {
      for (let i = 0; i < 11; i++) await writeFile(join(root, `${i}`), '');
    });
    await waitFor('an overflow', () => copy.overflows > 0);
    expect(copy.reported).toEqual([]);
    await writeFile(join(root, '3'), 'x');
    await copy.heard('modified 3');
  });

  test('gives other requests their turns while it compares long names with many globs', async () => {
    const globs = Array.from({ length: 255 }, (_, index) => `*${'a'.repeat(25)}b${index}`);
    for (let i = 0; i < 400; i++) await writeFile(join(root, `${'a'.repeat(240)}${i}`), '');
    let turns = 0;
    const count = () => {
      turns++;
      ticking = setImmediate(count);
    };
    let ticking = setImmediate(count);
    const watch = await watchTree(nativePathOfText(root), { ...OPTIONS, exclude: globs }, () => {});
    clearImmediate(ticking);
    watch.close();
    // 400 names of 240 characters, and a step per 32 characters of the globs.
    const steps = 400 * 240 * ((255 * 28) / 32);
    expect(turns).toBeGreaterThan(steps / GLOB_STEPS_PER_TURN / 2);
  });

  test('refuses globs that take too long for the tree', async () => {
    for (let i = 0; i < 10; i++) await writeFile(join(root, `${i}`), '');
    const watch = watchTree(nativePathOfText(root), { ...OPTIONS, exclude: ['x'] }, () => {}, {
      maxMatchSteps: 9,
    });
    await expect(watch).rejects.toThrow('the globs in `exclude` are too long for a tree of this size');
  });

  test('reports an overflow when there are more pending names than the limit', async () => {
    const { copy, together } = await fixture.follow(root, {}, { maxPendingNames: 10 });
    await together(async () => {
      for (let i = 0; i < 30; i++) await writeFile(join(root, `${i}`), '');
    });
    await waitFor('an overflow', () => copy.overflows > 0);
    await copy.settled();
    expect(copy.contradictions).toEqual([]);
  });

  test.each([
    ['files', new WatchBudget(5, 100), 'at most 5 files'],
    ['directories', new WatchBudget(100, 3), 'at most 3 directories'],
  ])('rejects a tree with too many %s and keeps nothing open', async (_, budget, text) => {
    await makeFile(root, 'a', 'b', 'c', 'd', 'e');
    await expect(fixture.follow(root, {}, { budget })).rejects.toMatchObject({
      kind: 'refused',
      message: expect.stringContaining(text),
    });
    await expect(fixture.follow(outside, {}, { budget })).resolves.toBeDefined();
  });

  test('leaves watches of the system to other connections', async () => {
    const system = new FairShares(8, 'watched directories (fs.inotify.max_user_watches)');
    const [one, two] = [new WatchBudget(100, 100, system), new WatchBudget(100, 100, system)];
    for (const name of ['a', 'b', 'c', 'd']) await makeFile(root, name, 'file');
    await expect(fixture.follow(root, {}, { budget: one })).rejects.toMatchObject({
      kind: 'refused',
      message: expect.stringContaining('has 4 of its share of 4'),
    });
    expect(system.free).toBe(8);
    await rm(join(root, 'd'), { recursive: true });
    await fixture.follow(root, {}, { budget: one });
    expect(system.free).toBe(4);
    await fixture.follow(outside, {}, { budget: two });
  });

  test('reports an overflow while a tree exceeds its limit, until it fits again', async () => {
    const { copy } = await fixture.follow(root, {}, { budget: new WatchBudget(10), retryMs: 20 });
    for (let i = 0; i < 12; i++) await writeFile(join(root, `${i}`), '');
    await waitFor('overflows', () => copy.overflows > 2);
    for (let i = 0; i < 12; i++) await rm(join(root, `${i}`));
    const reported = copy.reported.length;
    await waitFor('a change', async () => {
      await writeFile(join(root, 'file'), '');
      return copy.reported.length > reported;
    });
  });
});

describe('delivery', () => {
  test('waits for a listener that is not ready, and reports every path once', async () => {
    let isReady = false;
    await makeFile(root, 'a');
    const { copy, watch } = await fixture.follow(root, {}, { ready: () => isReady, rootCheckMs: 10 });
    for (let i = 0; i < 20; i++) await writeFile(join(root, 'a'), `${i}`);
    await writeFile(join(root, 'b'), '');
    await rm(join(root, 'a'));
    expect(copy.reported).toEqual([]);
    isReady = true;
    watch.flush();
    await copy.heard('created b', 'deleted a');
    expect(copy.reported).toHaveLength(2);
  });

  test('stops between two batches when the listener is full', async () => {
    let capacity = 0;
    const copy = new WatchedCopy(root);
    await copy.look();
    let batches = 0;
    const watch = await watchTree(
      copy.root,
      { ...OPTIONS, debounceMs: 200 },
      (batch) => {
        capacity -= 1;
        batches += 1;
        expect(batch.changes.length).toBeLessThanOrEqual(1000);
        copy.apply(batch);
      },
      { ready: () => capacity > 0 },
    );
    fixture.watches.push(watch);
    await Promise.all(Array.from({ length: 2500 }, (_, i) => writeFile(join(root, `${i}`), '')));
    capacity = 1;
    watch.flush();
    await waitFor('the first batch', () => batches === 1);
    await writeFile(join(root, '7'), 'later');
    watch.flush();
    expect(batches).toBe(1);
    capacity = Number.POSITIVE_INFINITY;
    watch.flush();
    await copy.settled();
    expect(copy.contradictions).toEqual([]);
  });

  test('delivers nothing after close, even if changes were collected', async () => {
    const { copy, watch } = await fixture.follow(root, { debounceMs: 50 });
    const other = await fixture.follow(root, { debounceMs: 100 });
    await writeFile(join(root, 'file'), '');
    watch.close();
    await other.copy.heard('created file');
    await fixture.mark(other.copy);
    expect(copy.reported).toEqual([]);
  });
});
