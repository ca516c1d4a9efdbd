import { getEventListeners } from 'node:events';
import { describe, expect, test } from 'vitest';
import { onAbort, sleep, unlessAborted } from '../../../src/base/abort.ts';

const never = new Promise<never>(() => {});

describe('onAbort', () => {
  test('does not call a removed callback, but calls the same one added again', () => {
    const aborter = new AbortController();
    const called: string[] = [];
    const callback = () => called.push('called');
    const stop = onAbort(aborter.signal, callback);
    onAbort(aborter.signal, callback);
    stop();
    stop();
    aborter.abort();
    expect(called).toEqual(['called']);
  });

  test('adds one listener to the signal for all callbacks and removes it with the last', () => {
    const { signal } = new AbortController();
    const stops = Array.from({ length: 20 }, () => onAbort(signal, () => {}));
    expect(getEventListeners(signal, 'abort')).toHaveLength(1);
    for (const stop of stops) stop();
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });
});

describe('unlessAborted', () => {
  test('returns the result of the work and stops listening', async () => {
    const { signal } = new AbortController();
    expect(await unlessAborted(Promise.resolve(1), signal)).toBe(1);
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });

  test('rejects as the work does and stops listening', async () => {
    const { signal } = new AbortController();
    await expect(unlessAborted(Promise.reject('failed'), signal)).rejects.toBe('failed');
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });

  test('rejects with the reason of the signal', async () => {
    const aborter = new AbortController();
    const outcome = expect(unlessAborted(never, aborter.signal)).rejects.toBe('stop');
    aborter.abort('stop');
    await outcome;
    await expect(unlessAborted(never, aborter.signal)).rejects.toBe('stop');
    expect(getEventListeners(aborter.signal, 'abort')).toEqual([]);
  });

  test('returns or throws what onAborted does', async () => {
    const signal = AbortSignal.abort('stop');
    expect(await unlessAborted<boolean>(never, signal, () => false)).toBe(false);
    const error = new Error('cancelled');
    const fail = () => {
      throw error;
    };
    await expect(unlessAborted<never>(never, signal, fail)).rejects.toBe(error);
  });

  test('ignores a rejection of the work after the abort', async () => {
    const unhandled: unknown[] = [];
    const note = (reason: unknown) => unhandled.push(reason);
    process.on('unhandledRejection', note);
    const work = new Promise<string>((_, reject) => setImmediate(reject, new Error('too late')));
    expect(await unlessAborted(work, AbortSignal.abort(), () => 'aborted')).toBe('aborted');
    await new Promise((resolve) => setTimeout(resolve, 5));
    process.off('unhandledRejection', note);
    expect(unhandled).toEqual([]);
  });
});

describe('sleep', () => {
  test('resolves after the time and stops listening', async () => {
    const { signal } = new AbortController();
    await sleep(1, signal);
    expect(getEventListeners(signal, 'abort')).toEqual([]);
  });

  test('resolves when the signal aborts', async () => {
    const aborter = new AbortController();
    const slept = sleep(1_000_000, aborter.signal);
    aborter.abort();
    await slept;
    await sleep(1_000_000, aborter.signal);
  });
});
