import { getEventListeners } from 'node:events';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { TimeLimit } from '../../../src/base/time-limit.ts';
import { forceGc } from '../../support/force-gc.ts';

/** Work that ends only when its signal aborts. Nothing else refers to the signal. */
const untilAborted = (signal: AbortSignal) =>
  new Promise<never>((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason));
  });

test.each([
  ['without another signal', null],
  ['with another signal', new AbortController().signal],
])('a time limit %s survives garbage collection', async (_name, signal) => {
  const limited = TimeLimit.run(200, signal, untilAborted);
  const outcome = expect(limited).rejects.toMatchObject({ name: 'TimeoutError' });
  await forceGc();
  await outcome;
});

test('an abort of the other signal survives garbage collection', async () => {
  const aborter = new AbortController();
  const outcome = expect(TimeLimit.run(60_000, aborter.signal, untilAborted)).rejects.toBe('stopped');
  await forceGc();
  aborter.abort('stopped');
  await outcome;
});

describe('TimeLimit', () => {
  beforeEach(() => {
    vi.useFakeTimers();
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  test('returns the result of the work, clears the timer and stops listening', async () => {
    const { signal } = new AbortController();
    expect(await TimeLimit.run(10, signal, async () => 'done')).toBe('done');
    expect(vi.getTimerCount()).toBe(0);
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });

  test('aborts immediately with a signal that is aborted already, and when there is no time', () => {
    expect(new TimeLimit(10, [AbortSignal.abort('before')]).signal.reason).toBe('before');
    expect(new TimeLimit(0).signal.reason).toMatchObject({ name: 'TimeoutError' });
  });

  test('uses the reasons of its owner', () => {
    const aborter = new AbortController();
    const reasons = { timeUp: () => 'late', aborted: (reason: unknown) => `because: ${reason}` };
    const timed = new TimeLimit(10, [], reasons);
    const aborted = new TimeLimit(10, [aborter.signal], reasons);
    aborter.abort('x');
    vi.advanceTimersByTime(10);
    expect([timed.signal.reason, aborted.signal.reason]).toEqual(['late', 'because: x']);
  });

  test.each([null, Number.POSITIVE_INFINITY, 2 ** 31])('sets no timer for %s ms', (ms) => {
    expect(new TimeLimit(ms).signal.aborted).toBe(false);
    expect(vi.getTimerCount()).toBe(0);
  });
});
