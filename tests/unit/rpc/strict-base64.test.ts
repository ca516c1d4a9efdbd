import fc from 'fast-check';
import { expect, test } from 'vitest';
import { isCanonicalBase64 } from '../../../src/base/base64.ts';
import { Base64Fault, decodeStrictBase64 } from '../../../src/rpc/strict-base64.ts';

test.each([
  ['', ''],
  ['aGk=', 'hi'],
  ['aA==', 'h'],
  ['YWJj', 'abc'],
])('decodes %s', (text, bytes) => {
  expect(decodeStrictBase64(text)).toEqual(Buffer.from(bytes));
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
])('refuses %j: %s', (text, problem) => {
  expect(decodeStrictBase64(text)).toEqual({ problem });
});

test('reports the same fault for any chunks', () => {
  const symbols = fc.string({ unit: fc.constantFrom(...'ABab01+/=-_ ') });
  fc.assert(
    fc.property(fc.array(symbols), fc.constantFrom('', 'QUJD', 'QUJDQUJD'), (pieces, good) => {
      const judged = decodeStrictBase64(`${good}${pieces.join('')}`);
      fc.pre('problem' in judged);
      const fault = new Base64Fault(good.length);
      for (const piece of pieces) fault.add(piece);
      expect(fault.problem).toBe((judged as { problem: string }).problem);
    }),
    { numRuns: 2_000 },
  );
});

test('accepts exactly the canonical texts', () => {
  const text = fc.oneof(
    fc.string({ unit: fc.constantFrom(...'ABab01+/=-_ \néŁ') }),
    fc.uint8Array().map((bytes) => Buffer.from(bytes).toString('base64')),
    fc
      .tuple(fc.base64String(), fc.constantFrom('', '=', '==', 'A', '=A=='))
      .map(([start, end]) => `${start}${end}`),
  );
  fc.assert(
    fc.property(text, (candidate) => {
      expect(Buffer.isBuffer(decodeStrictBase64(candidate))).toBe(isCanonicalBase64(candidate));
    }),
    { numRuns: 5_000 },
  );
});
