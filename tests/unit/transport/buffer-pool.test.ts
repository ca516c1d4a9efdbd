import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { BufferPool } from '../../../src/transport/buffer-pool.ts';
import { BUFFER_POOL_BYTES, BUFFER_POOL_IDLE_MS } from '../../../src/transport/limits.ts';

const MB = 1024 * 1024;

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test('a block is used again, once, for what needs about as much', () => {
  const spare = new BufferPool();
  const block = spare.take(MB);
  expect(block.length).toBeGreaterThanOrEqual(MB);
  spare.give(block);
  expect(spare.take(1_000) === block).toBe(false);
  expect(spare.take(2 * MB) === block).toBe(false);
  expect(spare.take(MB - 1_000) === block).toBe(true);
  expect(spare.take(MB) === block).toBe(false);
});

test('a block of the smallest size is used again for what needs little of it', () => {
  const spare = new BufferPool();
  const block = spare.take(1_000);
  spare.give(block);
  expect(spare.take(2_000) === block).toBe(true);
});

test('so much is kept and no more', () => {
  const spare = new BufferPool();
  const blocks = Array.from({ length: BUFFER_POOL_BYTES / MB + 3 }, () => spare.take(MB));
  for (const block of blocks) spare.give(block);
  const again = blocks.map(() => spare.take(MB)).filter((block) => blocks.includes(block));
  expect(again).toHaveLength(BUFFER_POOL_BYTES / MB);
});

test('blocks that are too small for anything are not kept', () => {
  const spare = new BufferPool();
  spare.give(Buffer.alloc(0));
  spare.give(Buffer.alloc(1_000));
  expect(vi.getTimerCount()).toBe(0);
});

test('what nobody takes is dropped after a moment', () => {
  const spare = new BufferPool();
  const block = spare.take(MB);
  spare.give(block);
  vi.advanceTimersByTime(BUFFER_POOL_IDLE_MS);
  expect(spare.take(MB) === block).toBe(false);
  expect(vi.getTimerCount()).toBe(0);
});
