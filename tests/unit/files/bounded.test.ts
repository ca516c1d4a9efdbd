import { expect, test } from 'vitest';
import { forEachBounded } from '../../../src/files/bounded.ts';

/** Work that waits until it is told to end. */
function heldWork() {
  const held = new Map<number, { resolve: () => void; reject: (error: Error) => void }>();
  const work = (item: number): Promise<void> =>
    new Promise((resolve, reject) => held.set(item, { resolve, reject }));
  return { held, work };
}

const settled = () => new Promise((resolve) => setImmediate(resolve));

test('no more than the limit runs at a time, and everything is done', async () => {
  const { held, work } = heldWork();
  const done = forEachBounded([1, 2, 3], 2, work);
  await settled();
  expect([...held.keys()]).toEqual([1, 2]);
  held.get(2)!.resolve();
  await settled();
  expect([...held.keys()]).toEqual([1, 2, 3]);
  held.get(1)!.resolve();
  held.get(3)!.resolve();
  await done;
});

test('a failure waits for what runs and begins nothing more', async () => {
  const { held, work } = heldWork();
  let ended = false;
  const done = forEachBounded([1, 2, 3], 2, work).finally(() => {
    ended = true;
  });
  const outcome = expect(done).rejects.toThrow('first');
  await settled();
  held.get(1)!.reject(new Error('first'));
  await settled();
  expect(ended).toBe(false);
  held.get(2)!.reject(new Error('second'));
  await outcome;
  expect([...held.keys()]).toEqual([1, 2]);
});
