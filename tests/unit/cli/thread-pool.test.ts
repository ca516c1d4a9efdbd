import { afterEach, expect, test, vi } from 'vitest';
import { growThreadPool } from '../../../src/cli/thread-pool.ts';

afterEach(() => vi.unstubAllEnvs());

test('the variable is gone when the pool has read it', () => {
  vi.stubEnv('UV_THREADPOOL_SIZE', undefined);
  growThreadPool();
  expect(process.env.UV_THREADPOOL_SIZE).toBeUndefined();
});

test('a number that was set stays', () => {
  vi.stubEnv('UV_THREADPOOL_SIZE', '3');
  growThreadPool();
  expect(process.env.UV_THREADPOOL_SIZE).toBe('3');
});
