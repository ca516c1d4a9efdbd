import fc from 'fast-check';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { loadBase64 } from '../../../src/native/base64.ts';
import {
  base64Length,
  decodeGroups,
  STRING_CODER,
  useBase64Coder,
  writeBase64,
} from '../../../src/rpc/base64.ts';
import { BASE64_DECODE_CHUNK_CHARACTERS, BASE64_ENCODE_CHUNK_BYTES } from '../../../src/rpc/limits.ts';
import { readBuffer } from '../../../src/transport/read-buffer.ts';

afterEach(() => useBase64Coder(STRING_CODER));

test('this Node has the native functions', () => {
  expect(loadBase64()).not.toBeNull();
});

describe.each([
  ['strings', () => STRING_CODER],
  ['native functions', () => loadBase64()!],
])('with %s', (_, coder) => {
  beforeEach(() => useBase64Coder(coder()));

  const lengths = fc.oneof(
    fc.nat(100),
    fc.integer({ min: BASE64_ENCODE_CHUNK_BYTES - 3, max: BASE64_ENCODE_CHUNK_BYTES + 3 }),
    fc.integer({ min: 0, max: BASE64_DECODE_CHUNK_CHARACTERS }),
  );
  const content = (length: number) => Buffer.from(Array.from({ length }, (__, index) => (index * 7919) >> 3));

  test('encodes like Node and writes nothing outside the target', () => {
    fc.assert(
      fc.property(lengths, fc.nat(9), fc.nat(9), (length, offset, start) => {
        const bytes = Buffer.concat([Buffer.alloc(offset, 'x'), content(length), Buffer.alloc(5, 'x')]);
        const source = bytes.subarray(offset, offset + length);
        const frame = Buffer.alloc(start + base64Length(length) + 2 + 7, '.');
        const end = writeBase64(frame, start, new Uint8Array(source.buffer, source.byteOffset, length), END);
        expect(end).toBe(start + base64Length(length) + END.length);
        const expected = `${'.'.repeat(start)}${source.toString('base64')}"}${'.'.repeat(7)}`;
        expect(frame.toString('latin1') === expected).toBe(true);
      }),
    );
  });

  test('decodes groups from any memory', () => {
    fc.assert(
      fc.property(lengths, fc.boolean(), (length, isLarge) => {
        const bytes = content(length - (length % 3));
        const text = Buffer.from(bytes.toString('base64'));
        const memory = isLarge ? readBuffer(true).subarray(3, 3 + text.length) : text;
        memory.set(text);
        const into = Buffer.alloc(bytes.length + 4, 'x');
        expect(decodeGroups(memory, into)).toBe(bytes.length);
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
      expect(decodeGroups(whole, Buffer.alloc(whole.length))).toBeNull();
    }
  });
});

const END = Buffer.from('"}');
