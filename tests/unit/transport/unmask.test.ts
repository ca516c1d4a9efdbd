import fc from 'fast-check';
import { expect, test } from 'vitest';
import { unmask } from '../../../src/transport/unmask.ts';

test('unmasks every byte by its offset, and nothing around it', () => {
  fc.assert(
    fc.property(
      fc.uint8Array({ maxLength: 200 }),
      fc.uint8Array({ minLength: 4, maxLength: 4 }),
      fc.nat(8),
      fc.nat(1_000),
      (payload, key, offset, position) => {
        const memory = new Uint8Array(offset + payload.length + 8);
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
