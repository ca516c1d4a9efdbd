import fc from 'fast-check';
import { expect, test } from 'vitest';
import { MalformedMessageError, scanJson } from '../../../src/protocol/json-scan.ts';
import {
  DEFAULT_MESSAGE_LIMITS,
  MAX_KEY_LENGTH,
  MAX_REQUEST_FRACTIONS,
  MAX_REQUEST_KEYS,
} from '../../../src/protocol/limits.ts';

const limits = DEFAULT_MESSAGE_LIMITS;
const scan = (text: string) => scanJson(text, limits);
const nested = (arrays: number) => `{"x":${'['.repeat(arrays)}${']'.repeat(arrays)}}`;
const fractions = (count: number) => `{"x":[${Array(count).fill('0.5').join(',')}]}`;
const elements = (count: number) => `{"x":[${Array(count).fill('0').join(',')}]}`;

test.each([
  ['the deepest nesting', nested(126)],
  ['the deepest nesting many times', `{"x":[${Array(50).fill(nested(124)).join(',')}]}`],
  ['as many values as allowed', elements(limits.maxJsonValues - 2)],
  ['as many keys as allowed', objectOf(MAX_REQUEST_KEYS)],
  ['as many fractions as allowed', fractions(MAX_REQUEST_FRACTIONS)],
  ['the same key in different objects', '{"a":{"a":{"a":1}},"b":[{"a":1},{"a":1}]}'],
  ['keys that differ only in case', '{"id":1,"ID":2,"Id":3}'],
  ['a key that equals a value', '{"a":"b","b":"a"}'],
  ['__proto__ as a key', '{"__proto__":1,"constructor":2,"toString":3}'],
  ['a pair of surrogates', '{"x":"\\ud83d\\ude00"}'],
  ['an unescaped emoji', '{"x":"😀"}'],
  ['an escaped backslash before a u', '{"x":"\\\\ud800"}'],
  ['braces, commas and colons in strings', '{"x":"{[,:\\"]}","y":"}{"}'],
  ['the longest key', `{"${'k'.repeat(MAX_KEY_LENGTH - 2)}":1}`],
])('accepts %s', (_name, text) => {
  expect(scan(text).text).toBe(text);
  expect(() => JSON.parse(text)).not.toThrow();
});

test.each([
  ['keys, id first', `{"id":1,"method":"m","params":${objectOf(MAX_REQUEST_KEYS)}}`, '1'],
  ['keys, id last', `{"method":"m","params":${objectOf(MAX_REQUEST_KEYS)},"id":"x"}`, '"x"'],
  ['keys of a response', `{"id":1,"result":${objectOf(MAX_REQUEST_KEYS)}}`, null],
  ['keys, id only in the params', `{"method":"m","params":{"id":1,"x":${objectOf(MAX_REQUEST_KEYS)}}}`, null],
  ['fractions', `{"method":"m","params":${fractions(MAX_REQUEST_FRACTIONS + 1)},"id":2}`, '2'],
])('refuses too many %s, and names the request', (_name, text, rawId) => {
  let failure: unknown;
  try {
    scan(text);
  } catch (error) {
    failure = error;
  }
  expect(failure).toMatchObject({ message: expect.stringContaining('more than'), rawId });
});

test.each([
  ['one level too many', nested(127), /nested deeper than 127/],
  ['one level too many of objects', `${'{"a":'.repeat(128)}1${'}'.repeat(128)}`, /nested deeper/],
  ['one value too many', elements(limits.maxJsonValues - 1), /more than 262144 JSON values/],
  ['one key too many', objectOf(MAX_REQUEST_KEYS + 1), /more than 32768 keys/],
  [
    'one fraction too many',
    fractions(MAX_REQUEST_FRACTIONS + 1),
    /more than 1024 numbers that are not 64-bit/,
  ],
  ['a duplicate key', '{"a":1,"a":2}', /duplicate key/],
  ['a duplicate key at depth', '[{"x":[{"b":1,"c":2,"b":3}]}]', /duplicate key/],
  ['a duplicate key spelled with an escape', '{"a":1,"\\u0061":2}', /duplicate key/],
  ['a duplicate key with escapes in both', '{"\\u00e9":1,"\\u00E9":2}', /duplicate key/],
  ['a duplicate empty key', '{"":1,"":2}', /duplicate key/],
  ['a duplicate __proto__', '{"__proto__":1,"__proto__":2}', /duplicate key/],
  ['a duplicate among many keys', objectOf(100).replace('}', ',"k7":1}'), /duplicate key/],
  ['a duplicate of the ninth key', objectOf(9).replace('}', ',"k8":1}'), /duplicate key/],
  ['a lone high surrogate', '{"x":"\\ud800"}', /lone surrogate/],
  ['a lone high surrogate before text', '{"x":"\\ud800abcdefgh"}', /lone surrogate/],
  ['a lone low surrogate', '{"x":"\\udc00"}', /lone surrogate/],
  ['surrogates in the wrong order', '{"x":"\\udc00\\ud800"}', /lone surrogate/],
  ['two high surrogates', '{"x":"\\ud800\\ud800"}', /lone surrogate/],
  ['a lone surrogate in a key', '{"\\uDBFF":1}', /lone surrogate/],
  ['a key that is too long', `{"${'k'.repeat(MAX_KEY_LENGTH - 1)}":1}`, /a key longer than/],
  ['a bad escape in a key', '{"\\x":1}', /bad escape in a key/],
])('refuses %s', (_name, text, message) => {
  expect(() => scan(text)).toThrow(MalformedMessageError);
  expect(() => scan(text)).toThrow(message);
});

test('allows as many keys and fractions in a result as values', () => {
  const text = `{"x":${objectOf(MAX_REQUEST_KEYS + 1)},"y":${fractions(MAX_REQUEST_FRACTIONS + 1)}}`;
  expect(scanJson(text, limits, 'any').text).toBe(text);
});

test('counts keys without values towards the limit of values', () => {
  const keys = Array.from({ length: 100 }, (_, index) => `"${index}"`).join(',');
  expect(() => scanJson(`{${keys}`, { ...limits, maxJsonValues: 99 })).toThrow(/more than 99/);
  expect(() => scanJson(`{${keys}`, { ...limits, maxJsonValues: 100 })).not.toThrow();
});

test.each([
  ['{"id":7}', '7'],
  ['{ "id" :\n -9223372036854775808 }', '-9223372036854775808'],
  ['{"a":{"id":1},"id":2}', '2'],
  ['{"id":1.0}', '1.0'],
  ['{"\\u0069d":3}', '3'],
  ['{"id":"7"}', '"7"'],
  ['{"id":null}', null],
  ['{"id":true,"x":5}', null],
  ['{"id":[1]}', null],
  ['{"id":{"id":1}}', null],
  ['[{"id":1}]', null],
  ['{"x":{"id":1}}', null],
  ['{"x":"id","y":1}', null],
])('finds the raw id of %s: %s', (text, rawId) => {
  expect(scan(text).rawId).toBe(rawId);
});

test.each([
  ['{"x":1.0}', '{"x":0.5}'],
  ['{"x":1e0,"y":1E+2}', '{"x":0.5,"y":0.5}'],
  ['[-1.25,3,1e999]', '[0.5,3,0.5]'],
  ['{"x":"1.0","1.5":[1.5]}', '{"x":"1.0","1.5":[0.5]}'],
  ['{"x":123456789012345678901234567890}', '{"x":0.5}'],
  ['{"x":18446744073709551615}', '{"x":18446744073709551615}'],
  ['{"x":18446744073709551616}', '{"x":0.5}'],
  ['{"x":-18446744073709551616}', '{"x":0.5}'],
  ['{"x":00000000000000000000000}', '{"x":00000000000000000000000}'],
  ['{"x":1.}', '{"x":1.}'],
  ['{"x":1e}', '{"x":1e}'],
  ['{"x":01.5}', '{"x":01.5}'],
  ['{"x":.5}', '{"x":.5}'],
  ['{"x":1.5.5}', '{"x":1.5.5}'],
  ['{"x":true,"y":false}', '{"x":true,"y":false}'],
])('turns %s into %s: fractions stay visible and invalid numbers stay invalid', (text, visible) => {
  expect(scan(text).text).toBe(visible);
});

test('accepts any text or refuses it as malformed', () => {
  const fragments = fc.constantFrom(
    ...'{}[]",:\\ \n',
    '\\u',
    'd800',
    '"id"',
    '1',
    '-',
    '.5',
    'e',
    'true',
    'é',
  );
  fc.assert(
    fc.property(fc.array(fragments, { maxLength: 40 }), (parts) => {
      try {
        scan(parts.join(''));
      } catch (error) {
        expect(error).toBeInstanceOf(MalformedMessageError);
      }
    }),
    { numRuns: 2_000 },
  );
});

function isIntegerOf64Bits(token: string): boolean {
  return /^-?\d+$/.test(token) && BigInt(token) >= -(2n ** 63n) && BigInt(token) < 2n ** 64n;
}

test('accepts every JSON value and changes only numbers that are not 64-bit integers', () => {
  fc.assert(
    fc.property(fc.jsonValue({ maxDepth: 6 }), fc.constantFrom(undefined, 1, '\t'), (value, indent) => {
      const text = JSON.stringify(value, null, indent);
      const visible = scan(text).text;
      const numberPattern = /"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g;
      const expected = text.replace(numberPattern, (token) =>
        token.startsWith('"') || isIntegerOf64Bits(token) ? token : '0.5',
      );
      expect(visible).toBe(expected);
    }),
  );
});

test.each<[string, (size: number) => string]>([
  ['many strings without escapes', (size) => `[${Array(size).fill('"abc"').join(',')}]`],
  ['many strings with an escape each', (size) => `[${Array(size).fill('"a\\n"').join(',')}]`],
  ['one string of escapes', (size) => `["${'\\n'.repeat(size)}"]`],
  ['one string of escaped quotes', (size) => `["${'\\"'.repeat(size)}"]`],
  ['many strings before one late escape', (size) => `[${'"a",'.repeat(size)}"\\n"]`],
  ['unicode escapes', (size) => `["${'\\ud83d\\ude00'.repeat(size)}"]`],
  ['quotes that never close', (size) => `${'"'.repeat(size)}\\`],
  ['deep nesting, over and over', (size) => `[${'[[[[[[[[]]]]]]]],'.repeat(size)}1]`],
  ['many keys in one object', (size) => objectOf(size)],
  ['many small objects', (size) => `[${Array(size).fill('{"a":1,"b":2}').join(',')}]`],
  [
    'many fractions',
    (size) =>
      `[${Array(size / 3)
        .fill('1.5')
        .join(',')}]`,
  ],
  ['a number of many digits', (size) => `[1.${'1'.repeat(size)}]`],
  ['whitespace', (size) => ' '.repeat(size)],
  ['escaped keys', (size) => `{${Array.from({ length: size }, (_, i) => `"\\u0061${i}":0`).join(',')}}`],
])('scanning %s takes linear time', (_name, build) => {
  const small = build(300);
  const large = build(3_000);
  const growth = large.length / small.length;
  expect(growth).toBeGreaterThan(8);
  expect(workOf(large)).toBeLessThan(workOf(small) * growth * 1.5);
});

function objectOf(size: number): string {
  return `{${Array.from({ length: size }, (_, index) => `"k${index}":0`).join(',')}}`;
}

/** Counts the characters that a scan reads, by its string operations. */
function workOf(text: string): number {
  const { charCodeAt, indexOf, slice, includes } = String.prototype;
  const arrayIncludes = Array.prototype.includes;
  let work = 0;
  String.prototype.charCodeAt = function (at) {
    work++;
    return charCodeAt.call(this, at);
  };
  String.prototype.indexOf = function (wanted, from = 0) {
    const found = indexOf.call(this, wanted, from);
    work += (found < 0 ? this.length : found) - from + 1;
    return found;
  };
  String.prototype.slice = function (from, to) {
    const part = slice.call(this, from, to);
    work += part.length;
    return part;
  };
  String.prototype.includes = function (wanted, from) {
    work += this.length;
    return includes.call(this, wanted, from);
  };
  Array.prototype.includes = function (wanted, from) {
    work += this.length;
    return arrayIncludes.call(this, wanted, from);
  };
  try {
    scan(text);
  } finally {
    Object.assign(String.prototype, { charCodeAt, indexOf, slice, includes });
    Array.prototype.includes = arrayIncludes;
  }
  return work;
}

test('keeps numbers unchanged where any are allowed', () => {
  const text = '{"id":1.5,"x":[1.0,1e9,-0.25,123456789012345678901234567890]}';
  expect(scanJson(text, limits, 'any')).toEqual({ text, rawId: '1.5' });
  expect(() => scanJson('{"a":1,"a":2}', limits, 'any')).toThrow(/duplicate key/);
});
