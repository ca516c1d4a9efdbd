import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  BUFFER_CODER,
  base64Length,
  decodeGroups,
  TYPED_ARRAY_CODER,
  writeBase64,
} from '../../../src/rpc/base64.ts';
import { BASE64_DECODE_CHUNK_CHARACTERS, BASE64_ENCODE_CHUNK_BYTES } from '../../../src/rpc/limits.ts';

test('uses the functions of Uint8Array where this Node has them', () => {
  expect(TYPED_ARRAY_CODER !== null).toBe('toBase64' in Uint8Array.prototype);
});

describe.each([
  { owner: 'Buffer', coder: BUFFER_CODER },
  ...(TYPED_ARRAY_CODER === null ? [] : [{ owner: 'Uint8Array', coder: TYPED_ARRAY_CODER }]),
])('with the functions of $owner', ({ coder }) => {
  const lengths = fc.oneof(
    fc.nat(100),
    fc.integer({ min: BASE64_ENCODE_CHUNK_BYTES - 3, max: BASE64_ENCODE_CHUNK_BYTES + 3 }),
    fc.integer({ min: 0, max: BASE64_DECODE_CHUNK_CHARACTERS }),
  );
  const content = (length: number) => Buffer.from(Array.from({ length }, (_, index) => (index * 7919) >> 3));

  test('encodes like Node and writes nothing outside the target', () => {
    fc.assert(
      fc.property(lengths, fc.nat(9), fc.nat(9), (length, offset, start) => {
        const bytes = Buffer.concat([Buffer.alloc(offset, 'x'), content(length), Buffer.alloc(5, 'x')]);
        const source = bytes.subarray(offset, offset + length);
        const frame = Buffer.alloc(start + base64Length(length) + 2 + 7, '.');
        const end = writeBase64(
          frame,
          start,
          new Uint8Array(source.buffer, source.byteOffset, length),
          END,
          coder,
        );
        expect(end).toBe(start + base64Length(length) + END.length);
        const expected = `${'.'.repeat(start)}${source.toString('base64')}"}${'.'.repeat(7)}`;
        expect(frame.toString('latin1') === expected).toBe(true);
      }),
    );
  });

  test('decodes groups from any memory', () => {
    fc.assert(
      fc.property(lengths, fc.nat(7), (length, offset) => {
        const bytes = content(length - (length % 3));
        const text = Buffer.from(bytes.toString('base64'));
        const memory = Buffer.alloc(offset + text.length).subarray(offset);
        memory.set(text);
        const into = Buffer.alloc(bytes.length + 4, 'x');
        expect(decodeGroups(memory, into, coder)).toBe(bytes.length);
        expect(into.equals(Buffer.concat([bytes, Buffer.from('xxxx')]))).toBe(true);
      }),
    );
  });

  test.each([
    'aGk=',
    'aG k',
    'aGVs bG8h\n\n\n',
    'aG-_',
    'aG!k',
    'aG\u00e9k',
    '\u00c1aGk',
    'aGk=aGVs',
    'aGVsaGk',
    '====',
  ])('refuses %j, also after a long valid text', (text) => {
    for (const before of ['', 'aGVs'.repeat(10), 'aGVs'.repeat(20_000)]) {
      const whole = Buffer.from(`${before}${text}`, 'latin1');
      expect(decodeGroups(whole, Buffer.alloc(whole.length), coder)).toBeNull();
    }
  });
});

const END = Buffer.from('"}');
