import fc from 'fast-check';
import { expect, test } from 'vitest';
import { LARGE_READ_BYTES } from '../../../src/transport/limits.ts';
import { readBuffer, unmaskVectors } from '../../../src/transport/read-buffer.ts';
import { unmask } from '../../../src/transport/unmask.ts';

test.each([
  ['memory of its own', (bytes: number) => new Uint8Array(bytes)],
  ['the buffer for large messages', (bytes: number) => readBuffer(true).subarray(0, bytes).fill(0)],
])('unmasks every byte by its offset in %s, and nothing around it', (_, memoryOf) => {
  fc.assert(
    fc.property(
      fc.uint8Array({ maxLength: 200 }),
      fc.uint8Array({ minLength: 4, maxLength: 4 }),
      fc.nat(8),
      fc.nat(1_000),
      (payload, key, offset, position) => {
        const memory = memoryOf(offset + payload.length + 8);
        memory.set(payload, offset);
        unmask(memory.subarray(offset, offset + payload.length), key, position);
        const expected = new Uint8Array(memory.length);
        expected.set(
          payload.map((byte, index) => byte ^ key[(position + index) % 4]!),
          offset,
        );
        expect(Buffer.from(memory).equals(expected)).toBe(true);
      },
    ),
  );
});

test('unmasks the whole buffer for large messages with vector instructions', () => {
  const buffer = readBuffer(true);
  expect(buffer.buffer.byteLength).toBe(LARGE_READ_BYTES);
  expect(unmaskVectors(buffer, 0)).toBe(LARGE_READ_BYTES);
  expect(unmaskVectors(Buffer.alloc(64), 0)).toBe(0);
  const expected = Buffer.alloc(LARGE_READ_BYTES, Buffer.of(1, 2, 3, 4));
  buffer.fill(0);
  unmask(buffer, Buffer.of(1, 2, 3, 4), 0);
  expect(buffer.equals(expected)).toBe(true);
});
