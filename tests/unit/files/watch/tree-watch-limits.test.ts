import { rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { WatchEventQueue } from '../../../../src/files/watch/event-queue.ts';
import { watchTree } from '../../../../src/files/watch/tree-watch.ts';
import { WatchBudget } from '../../../../src/files/watch/watch-budget.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { makeFile, OPTIONS, TreeScene } from './tree-fixture.ts';
import { DeafQueue, WatchedCopy } from './watched-copy.ts';

let scene: TreeScene;
let root: string;
let outside: string;
beforeEach(async () => {
  scene = await TreeScene.open();
  root = scene.root;
  outside = scene.outside;
});
afterEach(() => scene.close());

describe('limits', () => {
  test('a burst that may have filled the kernel queue: names stay right, and the overflow is told', async () => {
    const { copy } = await scene.follow(root, {}, { events: new WatchEventQueue(20) });
    await Promise.all(Array.from({ length: 50 }, (_, i) => makeFile(root, `d${i}`, 'file')));
    await waitFor('an overflow', () => copy.overflows > 0);
    await copy.settled();
    expect(copy.misfits).toEqual([]);
  });

  test('lost events: all that they would have told of names is found', async () => {
    await makeFile(root, 'box', 'gone');
    const deaf = new DeafQueue();
    const { copy } = await scene.follow(root, {}, { events: deaf });
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
    const { copy } = await scene.follow(root, { debounceMs: 200 }, { maxChanges: 10 });
    for (let i = 0; i < 11; i++) await writeFile(join(root, `${i}`), '');
    await waitFor('an overflow', () => copy.overflows > 0);
    expect(copy.told).toEqual([]);
    await writeFile(join(root, '3'), 'x');
    await copy.heard('modified 3');
  });

  test('more names than are noted', async () => {
    const { copy } = await scene.follow(root, { debounceMs: 200 }, { maxPendingNames: 10 });
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
    await expect(scene.follow(root, {}, { budget })).rejects.toMatchObject({
      kind: 'refused',
      message: expect.stringContaining(text),
    });
    await expect(scene.follow(outside, {}, { budget })).resolves.toBeDefined();
  });

  test('a tree that outgrows its limit is told as overflow until it fits again', async () => {
    const { copy } = await scene.follow(root, {}, { budget: new WatchBudget(10), retryMs: 20 });
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
    const { copy, watch } = await scene.follow(root, {}, { ready: () => isReady, rootCheckMs: 10 });
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
    scene.watches.push(watch);
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
    const { copy, watch } = await scene.follow(root, { debounceMs: 50 });
    const other = await scene.follow(root, { debounceMs: 100 });
    await writeFile(join(root, 'file'), '');
    watch.close();
    await other.copy.heard('created file');
    await scene.mark(other.copy);
    expect(copy.told).toEqual([]);
  });
});
