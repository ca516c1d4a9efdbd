import { expect, test } from 'vitest';
import { planThreadPool, startThreadPool } from '../../../src/cli/thread-pool.ts';

test('the number is there until the pool has read it', () => {
  const env: NodeJS.ProcessEnv = {};
  planThreadPool(env);
  expect(Number(env.UV_THREADPOOL_SIZE)).toBeGreaterThan(4);
  startThreadPool(env);
  expect(env).toEqual({});
});

test('a number that was set stays', () => {
  const env: NodeJS.ProcessEnv = { UV_THREADPOOL_SIZE: '3' };
  planThreadPool(env);
  startThreadPool(env);
  expect(env).toEqual({ UV_THREADPOOL_SIZE: '3' });
});
