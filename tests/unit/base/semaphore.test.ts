import { getEventListeners } from 'node:events';
import { describe, expect, test } from 'vitest';
import { Semaphore } from '../../../src/base/semaphore.ts';

const { signal } = new AbortController();
const settled = () => new Promise(setImmediate);

describe('Semaphore', () => {
  test('admits waiting callers in order and skips one that aborted', async () => {
    const semaphore = new Semaphore(1);
    const aborter = new AbortController();
    const order: string[] = [];
    await semaphore.acquire(signal);
    const first = semaphore.acquire(aborter.signal).catch((reason) => order.push(`aborted: ${reason}`));
    const second = semaphore.acquire(signal).then(() => order.push('second'));
    const third = semaphore.acquire().then(() => order.push('third'));
    aborter.abort('tired');
    await first;
    semaphore.release();
    await second;
    expect(order).toEqual(['aborted: tired', 'second']);
    semaphore.release();
    await third;
    semaphore.release();
    await semaphore.acquire(signal);
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });

  test('gives no permit to a caller whose signal is aborted', async () => {
    const semaphore = new Semaphore(1);
    await expect(semaphore.acquire(AbortSignal.abort('gone'))).rejects.toBe('gone');
    await semaphore.acquire(signal);
  });

  test('gives no permits while paused, then as many as there are, in order', async () => {
    const semaphore = new Semaphore(2);
    const order: string[] = [];
    await semaphore.acquire(signal);
    semaphore.setPaused(true);
    for (const name of ['first', 'second', 'third'])
      void semaphore.acquire(signal).then(() => order.push(name));
    semaphore.release();
    await settled();
    expect(order).toEqual([]);
    semaphore.setPaused(false);
    await settled();
    expect(order).toEqual(['first', 'second']);
  });

  test('limits the bytes of all holders, but admits a single large one', async () => {
    const semaphore = new Semaphore(3, { maxBytes: 10 });
    const order: string[] = [];
    await semaphore.acquire(signal, 20);
    const acquire = (name: string, bytes: number) =>
      semaphore.acquire(signal, bytes).then(() => order.push(name));
    void acquire('six', 6);
    void acquire('five', 5);
    void acquire('one', 1);
    semaphore.release(20);
    await settled();
    expect(order).toEqual(['six']);
    semaphore.release(6);
    await settled();
    expect(order).toEqual(['six', 'five', 'one']);
  });

  test('admits smaller callers when a large one before them aborts', async () => {
    const semaphore = new Semaphore(3, { maxBytes: 10 });
    const aborter = new AbortController();
    await semaphore.acquire(signal, 6);
    const large = semaphore.acquire(aborter.signal, 6);
    const small = semaphore.acquire(signal, 4);
    aborter.abort('gone');
    await expect(large).rejects.toBe('gone');
    await small;
  });

  test('rejects a caller when too many wait', async () => {
    const full = new Error('full');
    const semaphore = new Semaphore(1, { maxWaiting: 1, tooManyWaiting: () => full });
    await semaphore.acquire();
    const waiting = semaphore.acquire();
    await expect(semaphore.acquire()).rejects.toBe(full);
    semaphore.release();
    await waiting;
  });

  test('rejects waiting and later callers once closed', async () => {
    const semaphore = new Semaphore(1);
    const error = new Error('closed');
    const { signal } = new AbortController();
    await semaphore.acquire();
    const waiting = semaphore.acquire(signal);
    semaphore.close(error);
    await expect(waiting).rejects.toBe(error);
    semaphore.release();
    await expect(semaphore.acquire()).rejects.toBe(error);
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });
});
