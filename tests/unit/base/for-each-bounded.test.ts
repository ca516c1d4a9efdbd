import { describe, expect, test } from 'vitest';
import { forEachBounded } from '../../../src/base/for-each-bounded.ts';

/** Work that waits until the test ends it. */
function pendingWork() {
  const pending = new Map<number, { resolve: () => void; reject: (error: Error) => void }>();
  const work = (item: number): Promise<void> =>
    new Promise((resolve, reject) => pending.set(item, { resolve, reject }));
  return { pending, work };
}

const settled = () => new Promise((resolve) => setImmediate(resolve));

describe('forEachBounded', () => {
  test('runs at most the limit at a time and processes every item', async () => {
    const { pending, work } = pendingWork();
    const done = forEachBounded([1, 2, 3], 2, work);
    await settled();
    expect([...pending.keys()]).toEqual([1, 2]);
    pending.get(2)!.resolve();
    await settled();
    expect([...pending.keys()]).toEqual([1, 2, 3]);
    pending.get(1)!.resolve();
    pending.get(3)!.resolve();
    await done;
  });

  test('starts nothing after a failure and waits for what runs before it throws', async () => {
    const { pending, work } = pendingWork();
    let ended = false;
    const done = forEachBounded([1, 2, 3], 2, work).finally(() => {
      ended = true;
    });
    const outcome = expect(done).rejects.toThrow('first');
    await settled();
    pending.get(1)!.reject(new Error('first'));
    await settled();
    expect(ended).toBe(false);
    pending.get(2)!.reject(new Error('second'));
    await outcome;
    expect([...pending.keys()]).toEqual([1, 2]);
  });
});
