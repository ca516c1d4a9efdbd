import fc from 'fast-check';
import { expect, test } from 'vitest';
import * as z from 'zod/mini';
import { isCanonicalBase64 } from '../../../src/base/base64.ts';
import {
  Base64,
  doc,
  Identifier,
  NoParams,
  optional,
  Uint16Positive,
  Uint64,
} from '../../../src/protocol/scalars.ts';

const accepts = (schema: z.ZodMiniType, value: unknown) => schema.safeParse(value).success;

test.each([
  ['no padding', 'aGk'],
  ['a character outside the alphabet', 'a*k='],
  ['the alphabet of URLs', '_-k='],
  ['whitespace', 'a Gk='],
  ['a line end', 'aGk=\n'],
  ['padding that is too long', 'aG==='],
  ['a padded group that is too long', 'aGk=='],
  ['padding in the middle', 'aG==aGk='],
  ['stray bits before one pad', 'aGl='],
  ['stray bits before two pads', 'aR=='],
  ['a length of one', 'a'],
  ['only padding', '===='],
  ['one pad after three pads', 'a==='],
  ['a character beyond ASCII', 'aGé='],
])('refuses base64 with %s', (_name, text) => {
  expect(isCanonicalBase64(text)).toBe(false);
  expect(accepts(Base64(), text)).toBe(false);
});

test('accepts every canonical encoding and decodes it', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 40 }), (bytes) => {
      const text = Buffer.from(bytes).toString('base64');
      expect(isCanonicalBase64(text)).toBe(true);
      expect(Buffer.from(text, 'base64')).toEqual(Buffer.from(bytes));
    }),
  );
});

test('accepts a text exactly when encoding its bytes reproduces it', () => {
  const symbol = fc.constantFrom(...'ABCEIQg4w0/+=-_ ');
  fc.assert(
    fc.property(fc.array(symbol, { maxLength: 12 }), (symbols) => {
      const text = symbols.join('');
      expect(isCanonicalBase64(text)).toBe(Buffer.from(text, 'base64').toString('base64') === text);
    }),
    { numRuns: 5_000 },
  );
});

test.each([...'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/'])(
  'accepts the last symbol %s before padding exactly when it has no stray bits',
  (symbol) => {
    for (const text of [`A${symbol}==`, `AA${symbol}=`]) {
      expect(isCanonicalBase64(text)).toBe(Buffer.from(text, 'base64').toString('base64') === text);
    }
  },
);

test('validates base64 of 60 MiB', () => {
  const text = 'A'.repeat(60 * 1024 * 1024);
  expect(isCanonicalBase64(text)).toBe(true);
  expect(isCanonicalBase64(`${text}A*==`)).toBe(false);
});

test.each([
  [0, true],
  [1, true],
  [Number.MAX_SAFE_INTEGER, true],
  [2 ** 64 - 1, true],
  [2 ** 65, false],
  [-1, false],
  [0.5, false],
  [Number.NaN, false],
  [Number.POSITIVE_INFINITY, false],
  ['1', false],
  [null, false],
  [undefined, false],
])('%s as an unsigned integer: %s', (value, accepted) => {
  expect(accepts(Uint64(), value)).toBe(accepted);
});

test.each([
  [1, true],
  [65_535, true],
  [0, false],
  [65_536, false],
  [1.5, false],
])('%s as a dimension: %s', (value, accepted) => {
  expect(accepts(Uint16Positive(), value)).toBe(accepted);
});

test.each([
  ['', true],
  ['\u0000', true],
  ['x'.repeat(64 * 1024), true],
  ['x'.repeat(64 * 1024 + 1), false],
])('an identifier of %j: %s', (value, accepted) => {
  expect(accepts(Identifier(), value)).toBe(accepted);
});

test.each([
  [undefined, true],
  [null, true],
  [{}, true],
  [[], false],
  [{ a: 1 }, false],
  [5, false],
  ['', false],
  [false, false],
])('%j as no parameters: %s', (value, accepted) => {
  expect(accepts(NoParams(), value)).toBe(accepted);
});

test('an optional value may be absent, null or present', () => {
  const schema = z.object({ a: optional(z.string()) });
  expect(schema.parse({})).toEqual({});
  expect(schema.parse({ a: null })).toEqual({ a: null });
  expect(accepts(schema, { a: 5 })).toBe(false);
});

test('describing a shared schema for one field does not affect others', () => {
  const described = doc(Uint64(), 'one field');
  const again = doc(Uint64(), 'another field');
  expect(z.globalRegistry.get(described)?.description).toBe('one field');
  expect(z.globalRegistry.get(again)?.description).toBe('another field');
  expect(z.globalRegistry.get(Uint64())?.description).toBeUndefined();
  expect(accepts(described, -1)).toBe(false);
});
