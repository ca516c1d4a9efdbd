import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { BufferPool } from '../../../src/transport/buffer-pool.ts';
import { BUFFER_POOL_BYTES, BUFFER_POOL_IDLE_MS } from '../../../src/transport/limits.ts';

const MB = 1024 * 1024;

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test('reuses a buffer once, for a request of similar size', () => {
  const pool = new BufferPool();
  const block = pool.take(MB);
  expect(block.length).toBeGreaterThanOrEqual(MB);
  pool.give(block);
  expect(pool.take(100_000) === block).toBe(false);
  expect(pool.take(2 * MB) === block).toBe(false);
  expect(pool.take(MB - 1_000) === block).toBe(true);
  expect(pool.take(MB) === block).toBe(false);
});

test('reuses a buffer of the smallest size for a message that is just large', () => {
  const pool = new BufferPool();
  const block = pool.take(100_000);
  pool.give(block);
  expect(pool.take(200_000) === block).toBe(true);
});

test('keeps a limited number of bytes', () => {
  const pool = new BufferPool();
  const blocks = Array.from({ length: BUFFER_POOL_BYTES / MB + 3 }, () => pool.take(MB));
  for (const block of blocks) pool.give(block);
  const again = blocks.map(() => pool.take(MB)).filter((block) => blocks.includes(block));
  expect(again).toHaveLength(BUFFER_POOL_BYTES / MB);
});

test('does not keep buffers that are too small', () => {
  const pool = new BufferPool();
  pool.give(Buffer.alloc(0));
  pool.give(Buffer.alloc(1_000));
  expect(vi.getTimerCount()).toBe(0);
});

test('drops unused buffers after a moment', () => {
  const pool = new BufferPool();
  const block = pool.take(MB);
  pool.give(block);
  vi.advanceTimersByTime(BUFFER_POOL_IDLE_MS);
  expect(pool.take(MB) === block).toBe(false);
  expect(vi.getTimerCount()).toBe(0);
});
