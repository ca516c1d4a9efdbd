import fc from 'fast-check';
import { expect, test } from 'vitest';
import { isCanonicalBase64 } from '../../../src/protocol/scalars.ts';
import { decodeBase64, decodeInPlace } from '../../../src/server/handlers/strict-base64.ts';
import { DECODED_AT_ONCE_CHARACTERS } from '../../../src/server/limits.ts';

test.each([
  ['', ''],
  ['aGk=', 'hi'],
  ['aA==', 'h'],
  ['YWJj', 'abc'],
])('%s is decoded', (text, bytes) => {
  expect(decodeBase64(text)).toEqual(Buffer.from(bytes));
});

test.each([
  ['!aaa', 'Invalid symbol 33, offset 0.'],
  ['aa_a', 'Invalid symbol 95, offset 2.'],
  ['a-aa', 'Invalid symbol 45, offset 1.'],
  ['aGk=\n', 'Invalid symbol 10, offset 4.'],
  ['aa\naa', 'Invalid symbol 10, offset 2.'],
  ['a', 'Invalid padding'],
  ['aGk', 'Invalid padding'],
  ['aGk==', 'Invalid padding'],
  ['aGl=', 'Invalid last symbol 108, offset 2.'],
  ['aB==', 'Invalid last symbol 66, offset 1.'],
  ['a=aa', 'Invalid symbol 61, offset 1.'],
  // Its low byte is that of an A, and Node takes it for one.
  ['YWJj\u0141AAA', 'Invalid symbol 321, offset 4.'],
])('%j is refused: %s', (text, problem) => {
  expect(decodeBase64(text)).toEqual({ problem });
});

test('it accepts exactly the canonical texts', () => {
  const text = fc.oneof(
    fc.string({ unit: fc.constantFrom(...'ABab01+/=-_ \néŁ') }),
    fc.uint8Array().map((bytes) => Buffer.from(bytes).toString('base64')),
    fc
      .tuple(fc.base64String(), fc.constantFrom('', '=', '==', 'A', '=A=='))
      .map(([start, end]) => `${start}${end}`),
  );
  fc.assert(
    fc.property(text, (candidate) => {
      expect(Buffer.isBuffer(decodeBase64(candidate))).toBe(isCanonicalBase64(candidate));
    }),
    { numRuns: 5_000 },
  );
});

test('a text of bytes gives what the string gives, wherever its pieces end and whatever is wrong with it', () => {
  const bytes = fc
    .integer({ min: 0, max: DECODED_AT_ONCE_CHARACTERS * 2 })
    .map((length) => Buffer.alloc(length, 'bytes'));
  const change = fc.record({
    at: fc.double({ min: 0, max: 1, noNaN: true }),
    symbol: fc.constantFrom('', 'A', '=', '-', '_', '\n', '\u00e9', '\u00c1'),
    replaced: fc.nat(1),
  });
  fc.assert(
    fc.property(bytes, fc.array(change, { maxLength: 2 }), (source, changes) => {
      const text = changes.reduce((changed, { at, symbol, replaced }) => {
        const index = Math.floor(at * changed.length);
        return `${changed.slice(0, index)}${symbol}${changed.slice(index + replaced)}`;
      }, source.toString('base64'));
      const whole = Buffer.from(`<<${text}>>`, 'latin1');
      const [decoded, expected] = [decodeInPlace(whole.subarray(2, -2)), decodeBase64(text)];
      if (Buffer.isBuffer(expected)) expect(expected.equals(decoded as Buffer)).toBe(true);
      else expect(decoded).toEqual(expected);
      expect(whole.toString('latin1', whole.length - 2)).toBe('>>');
    }),
    { numRuns: 300 },
  );
});

test('a text of bytes is decoded in its own memory', () => {
  const text = Buffer.from(Buffer.alloc(100_000, 'x').toString('base64'));
  const bytes = decodeInPlace(text) as Buffer;
  expect(bytes.equals(Buffer.alloc(100_000, 'x'))).toBe(true);
  expect([bytes.buffer, bytes.byteOffset]).toEqual([text.buffer, text.byteOffset]);
});
