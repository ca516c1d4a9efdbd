import { expect, test } from 'vitest';
import { BUFFER_POOL } from '../../../src/transport/buffer-pool.ts';
import { GrowableBuffer } from '../../../src/transport/growable-buffer.ts';
import { BUFFER_POOL_BYTES, PREALLOCATED_MESSAGE_MAX_BYTES } from '../../../src/transport/limits.ts';

const MB = 1024 * 1024;

test('appends all bytes, whatever size was expected', () => {
  for (const expected of [0, 5, 10, 1_000_000]) {
    const growing = new GrowableBuffer(expected);
    const pieces = Array.from({ length: 50 }, (_, index) => Buffer.alloc(index * index, index));
    for (const piece of pieces) growing.add(piece);
    expect(growing.bytes.equals(Buffer.concat(pieces))).toBe(true);
    expect(growing.length).toBe(growing.bytes.length);
  }
});

test('allocates little for an announcement, and the expected size after a part has arrived', () => {
  const growing = new GrowableBuffer(10 * PREALLOCATED_MESSAGE_MAX_BYTES);
  growing.add(Buffer.from('x'));
  expect(growing.bytes.buffer.byteLength).toBe(PREALLOCATED_MESSAGE_MAX_BYTES);
  growing.add(Buffer.alloc(PREALLOCATED_MESSAGE_MAX_BYTES - 10));
  growing.add(Buffer.alloc(20));
  expect(growing.bytes.buffer.byteLength).toBe(10 * PREALLOCATED_MESSAGE_MAX_BYTES);
});

test('writes into free space and truncates again', () => {
  const growing = new GrowableBuffer(0);
  growing.add(Buffer.from('abc'));
  growing.grow(growing.reserve(10).write('defghij'));
  expect(growing.bytes.toString()).toBe('abcdefghij');
  growing.cut(4);
  growing.add(Buffer.from('!'));
  expect(growing.bytes.toString()).toBe('abcd!');
});

test('moves bytes that fill less than a quarter of their memory', () => {
  const [few, many] = [Buffer.alloc(MB / 4 - 1, 'x'), Buffer.alloc(MB / 2, 'y')];
  const growing = new GrowableBuffer(MB);
  growing.add(few);
  growing.fit();
  expect(growing.bytes.buffer.byteLength).toBe(few.length);
  growing.add(many);
  const { buffer } = growing.bytes;
  growing.fit();
  expect(growing.bytes.buffer === buffer).toBe(true);
  expect(growing.bytes.equals(Buffer.concat([few, many]))).toBe(true);
});

test('returns released and outgrown memory to the pool', () => {
  const growing = new GrowableBuffer(MB);
  growing.add(Buffer.alloc(MB));
  const outgrown = growing.bytes.buffer;
  growing.add(Buffer.alloc(MB));
  const released = growing.bytes.buffer;
  growing.release();
  expect(growing.length).toBe(0);
  const pooled = [MB, 2 * MB].flatMap((bytes) =>
    Array.from({ length: BUFFER_POOL_BYTES / MB }, () => BUFFER_POOL.take(bytes).buffer),
  );
  expect([outgrown, released].map((memory) => pooled.includes(memory))).toEqual([true, true]);
});
