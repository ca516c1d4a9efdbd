import { createRequire } from 'node:module';
import fc from 'fast-check';
import { expect, test } from 'vitest';

interface BufferUtil {
  mask(source: Buffer, key: Buffer, output: Buffer, offset: number, length: number): void;
  unmask(buffer: Buffer, key: Buffer): void;
}

const { mask, unmask } = createRequire(import.meta.url)('../../../scripts/ws-buffer-util.cjs') as BufferUtil;

const bytes = fc.uint8Array({ maxLength: 100 });
const key = fc.uint8Array({ minLength: 4, maxLength: 4 });

function masked(source: Uint8Array, by: Uint8Array): Buffer {
  return Buffer.from(source.map((byte, index) => byte ^ by[index % 4]!));
}

test('a buffer is unmasked in place, wherever it begins and ends', () => {
  fc.assert(
    fc.property(bytes, key, fc.nat(7), (source, by, start) => {
      const whole = Buffer.concat([Buffer.alloc(start, 1), masked(source, by), Buffer.alloc(5, 2)]);
      unmask(whole.subarray(start, start + source.length), Buffer.from(by));
      expect(whole).toEqual(Buffer.concat([Buffer.alloc(start, 1), Buffer.from(source), Buffer.alloc(5, 2)]));
    }),
    { numRuns: 1_000 },
  );
});

test('a part of a buffer is masked into another', () => {
  fc.assert(
    fc.property(bytes, key, fc.nat(7), (source, by, offset) => {
      const output = Buffer.alloc(source.length + offset + 3);
      mask(Buffer.from(source), Buffer.from(by), output, offset, source.length);
      expect(output.subarray(offset, offset + source.length)).toEqual(masked(source, by));
      expect(output.subarray(0, offset)).toEqual(Buffer.alloc(offset));
      expect(output.subarray(offset + source.length)).toEqual(Buffer.alloc(3));
    }),
  );
});
