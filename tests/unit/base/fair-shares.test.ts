import { describe, expect, test } from 'vitest';
import { FairSemaphore } from '../../../src/base/fair-semaphore.ts';
import { FairShares, THREE_QUARTERS } from '../../../src/base/fair-shares.ts';

const [a, b, c] = [{}, {}, {}];

describe('FairShares', () => {
  /** How many units an owner gets when it takes all it can. */
  const takeAll = (shares: FairShares, owner: object) => {
    let taken = 0;
    while (shares.take(owner) !== null) taken++;
    return taken;
  };

  test('gives an owner at most half of what the others leave, and the last unit to any owner', () => {
    const shares = new FairShares(8);
    expect([a, b, c, {}, {}].map((owner) => takeAll(shares, owner))).toEqual([4, 2, 1, 1, 0]);
    expect(shares.free).toBe(0);
  });

  test.each([
    [1, 1],
    [2, 1],
    [3, 2],
    [1_024, 512],
    [0, 0],
  ])('of %i units an owner alone gets %i', (total, share) => {
    expect(takeAll(new FairShares(total), a)).toBe(share);
  });

  test('can give an owner three quarters of what the others leave', () => {
    const shares = new FairShares(64, 'units', () => {}, THREE_QUARTERS);
    expect([a, b, c, {}, {}, {}].map((owner) => takeAll(shares, owner))).toEqual([48, 12, 3, 1, 0, 0]);
    expect(shares.refusal(a)).toMatch('three quarters of what other sessions leave');
  });

  test('has no limit without a total', () => {
    const shares = new FairShares(Number.POSITIVE_INFINITY);
    expect(shares.take(a, 1_000_000)).not.toBeNull();
    expect(shares.take(b, 1_000_000)).not.toBeNull();
  });

  test('explains a refusal', () => {
    const shares = new FairShares(8, 'helpers (MAX_HELPERS)');
    shares.take(a, 3);
    shares.take(b, 1);
    expect(shares.refusal(a, 2)).toBe(
      'the server has 4 of 8 helpers (MAX_HELPERS) left; this session has 3 of its share of 4 (half of what other sessions leave) and needs 2 more',
    );
  });

  test('takes several units or none', () => {
    const shares = new FairShares(8);
    expect(shares.take(a, 5)).toBeNull();
    const units = shares.take(a, 4)!;
    expect([shares.free, shares.heldBy(a), shares.shareOf(a)]).toEqual([4, 4, 4]);
    expect(shares.take(b, 3)).toBeNull();
    expect(shares.shareOf(b)).toBe(2);
    units.leave(a);
    units.leave(a);
    expect([shares.free, shares.heldBy(a)]).toEqual([8, 0]);
  });

  test('counts units that owners share once for the pool and once for each of them', () => {
    const shares = new FairShares(8);
    const units = shares.take(a, 2)!;
    units.join(a);
    units.join(b);
    expect([shares.free, shares.heldBy(a), shares.heldBy(b)]).toEqual([6, 2, 2]);
    units.leave(a);
    expect(shares.heldBy(a)).toBe(2);
    units.leave(a);
    expect([shares.free, shares.heldBy(a), shares.heldBy(b)]).toEqual([6, 0, 2]);
    units.leave(b);
    expect([shares.free, shares.heldBy(b)]).toEqual([8, 0]);
  });
});

describe('FairSemaphore', () => {
  /** Owners in the order in which they were admitted. */
  const recorder = (semaphore: FairSemaphore) => {
    const admitted: string[] = [];
    const acquire = (owner: object, name: string, signal?: AbortSignal) =>
      semaphore.acquire(owner, signal).then((permit) => {
        admitted.push(name);
        return () => permit.leave(owner);
      });
    return { admitted, acquire };
  };
  const turn = () => new Promise((resolve) => setImmediate(resolve));

  test('admits another owner while one waits for permits beyond its share', async () => {
    const { admitted, acquire } = recorder(new FairSemaphore(4));
    const releases = [1, 2].map((index) => acquire(a, `a${index}`));
    const third = acquire(a, 'a3');
    const fourth = acquire(a, 'a4');
    const first = await acquire(b, 'b1');
    await turn();
    expect(admitted).toEqual(['a1', 'a2', 'b1']);
    (await releases[0]!)();
    (await third)();
    first();
    (await releases[1]!)();
    (await fourth)();
    expect(admitted).toEqual(['a1', 'a2', 'b1', 'a3', 'a4']);
  });

  test('serves the waiting callers of one owner in their order', async () => {
    const { admitted, acquire } = recorder(new FairSemaphore(1));
    const all = [1, 2, 3].map((index) => acquire(a, `a${index}`));
    for (const release of all) (await release)();
    expect(admitted).toEqual(['a1', 'a2', 'a3']);
  });

  test('a permit that several owners use is free when the last one has left', async () => {
    const semaphore = new FairSemaphore(1);
    const { admitted, acquire } = recorder(semaphore);
    const permit = await semaphore.acquire(a);
    permit.join(b);
    permit.leave(a);
    permit.leave(a);
    const waiting = acquire(c, 'c');
    await turn();
    expect(admitted).toEqual([]);
    permit.leave(b);
    (await waiting)();
    await expect(semaphore.acquire(b, AbortSignal.abort())).rejects.toThrow('aborted');
  });

  test('a caller that stops waiting leaves the queue', async () => {
    const semaphore = new FairSemaphore(1, { maxWaiting: 2, tooManyWaiting: () => new Error('full') });
    const permit = await semaphore.acquire(a);
    const stop = new AbortController();
    const stopped = semaphore.acquire(a, stop.signal);
    // One owner may not fill the queue.
    await expect(semaphore.acquire(a)).rejects.toThrow('full');
    const waiting = semaphore.acquire(b);
    await expect(semaphore.acquire(c)).rejects.toThrow('full');
    stop.abort(new Error('stopped'));
    await expect(stopped).rejects.toThrow('stopped');
    const last = semaphore.acquire(c);
    permit.leave(a);
    (await waiting).leave(b);
    (await last).leave(c);
  });
});
