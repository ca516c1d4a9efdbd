import { getEventListeners } from 'node:events';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { withTimeout } from '../../../src/base/with-timeout.ts';

const never = new Promise<never>(() => {});

describe('withTimeout', () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  test('returns the result of the work and clears the timer', async () => {
    expect(await withTimeout(Promise.resolve('done'), 10)).toBe('done');
    expect(vi.getTimerCount()).toBe(0);
  });

  test('rejects as the work does and clears the timer', async () => {
    const error = new Error('failed');
    await expect(withTimeout(Promise.reject(error), 10)).rejects.toBe(error);
    expect(vi.getTimerCount()).toBe(0);
  });

  test('resolves with undefined when the time is up', async () => {
    const limited = withTimeout(never, 10);
    await vi.advanceTimersByTimeAsync(10);
    expect(await limited).toBeUndefined();
  });

  test('returns what onTimeout returns', async () => {
    const limited = withTimeout(never, 10, { onTimeout: () => 'late' });
    await vi.advanceTimersByTimeAsync(10);
    expect(await limited).toBe('late');
  });

  test('rejects with what onTimeout throws', async () => {
    const error = new Error('late');
    const limited = withTimeout(never, 10, {
      onTimeout: () => {
        throw error;
      },
    });
    const outcome = expect(limited).rejects.toBe(error);
    await vi.advanceTimersByTimeAsync(10);
    await outcome;
  });

  test('counts work that ends while the promise of onTimeout is pending', async () => {
    let finish = (_result: string) => {};
    const work = new Promise<string>((resolve) => {
      finish = resolve;
    });
    const limited = withTimeout(work, 10, { onTimeout: () => never });
    await vi.advanceTimersByTimeAsync(20);
    finish('done after all');
    expect(await limited).toBe('done after all');
  });

  test('rejects with the reason of the signal, clears the timer and stops listening', async () => {
    const aborter = new AbortController();
    const limited = withTimeout(never, 10, { signal: aborter.signal });
    const outcome = expect(limited).rejects.toBe('stopped');
    aborter.abort('stopped');
    await outcome;
    expect(vi.getTimerCount()).toBe(0);
    expect(getEventListeners(aborter.signal, 'abort')).toEqual([]);
  });

  test('rejects when the signal is aborted already', async () => {
    await expect(withTimeout(never, 10, { signal: AbortSignal.abort('before') })).rejects.toBe('before');
    expect(vi.getTimerCount()).toBe(0);
  });

  test('stops listening to the signal when the time is up', async () => {
    const { signal } = new AbortController();
    const limited = withTimeout(never, 10, { signal });
    await vi.advanceTimersByTimeAsync(10);
    await limited;
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });
});

test.each([true, false])(
  'withTimeout sets whether the timer keeps Node running (unref: %s)',
  async (unref) => {
    const setTimer = vi.spyOn(globalThis, 'setTimeout');
    await withTimeout(Promise.resolve(), 10, {
      unref,
      onTimeout: () => undefined,
    });
    const timer = setTimer.mock.results[0]!.value as NodeJS.Timeout;
    setTimer.mockRestore();
    expect(timer.hasRef()).toBe(!unref);
  },
);

test('withTimeout ignores a rejection after the timeout', async () => {
  const unhandled: unknown[] = [];
  const note = (reason: unknown) => unhandled.push(reason);
  process.on('unhandledRejection', note);
  let fail = (_error: Error) => {};
  const work = new Promise<void>((_, reject) => {
    fail = reject;
  });
  await withTimeout(work, 1);
  fail(new Error('too late'));
  await new Promise(setImmediate);
  process.off('unhandledRejection', note);
  expect(unhandled).toEqual([]);
});
