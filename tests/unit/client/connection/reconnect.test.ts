import { expect, test } from 'vitest';
import { attemptUntil, reconnectBackoff } from '../../../../src/client/connection/reconnect.ts';
import { ClientError } from '../../../../src/client/errors.ts';

const passing = new ClientError('connectFailed', 'not yet', { retryable: true });

test('delays grow from 50 ms to a second, each with up to half as jitter', () => {
  const longest = reconnectBackoff(() => 1);
  expect(Array.from({ length: 7 }, () => longest.next())).toEqual([50, 100, 200, 400, 800, 1000, 1000]);
  const shortest = reconnectBackoff(() => 0.5);
  expect(Array.from({ length: 6 }, () => shortest.next())).toEqual([25, 50, 100, 200, 400, 500]);
  longest.reset();
  expect(longest.next()).toBe(50);
});

test('retries until an attempt succeeds', async () => {
  let attempts = 0;
  const result = await attemptUntil(
    async () => {
      if (++attempts < 3) throw passing;
      return 'there';
    },
    reconnectBackoff(() => 0.5),
    0,
    new AbortController().signal,
  );
  expect([result, attempts]).toEqual(['there', 3]);
});

test.each([new ClientError('server', 'no'), new Error('a defect')])('%s is final', async (error) => {
  let attempts = 0;
  const attempt = async () => {
    attempts++;
    throw error;
  };
  await expect(attemptUntil(attempt, reconnectBackoff(), 0, new AbortController().signal)).rejects.toBe(
    error,
  );
  expect(attempts).toBe(1);
});

test('a timeout rejects with the last error, or with its own reason when there was none', async () => {
  const attempt = () => Promise.reject(passing);
  await expect(attemptUntil(attempt, reconnectBackoff(), 0, AbortSignal.timeout(100))).rejects.toBe(passing);
  const reason = new Error('no time at all');
  await expect(attemptUntil(attempt, reconnectBackoff(), 0, AbortSignal.abort(reason))).rejects.toBe(reason);
});
