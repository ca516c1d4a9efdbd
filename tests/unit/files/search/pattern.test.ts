import { expect, test } from 'vitest';
import { checkPattern, javaScriptPattern, ripgrepPattern } from '../../../../src/files/search/pattern.ts';
import { queryFor } from './support.ts';

function indexOf(pattern: string, text: string): number | undefined {
  return javaScriptPattern(queryFor('/', pattern)).exec(text)?.index;
}

test.each([
  ['(?P<year>\\d{4})', 'in 2024', 3],
  ['(?i)ABC', 'xabc', 1],
  ['\\d', 'x٣', 1],
  ['\\w', '+é', 1],
  ['[\\w]', '+é', 1],
  ['\\bé', 'a é', 2],
  ['\\W', 'é+', 1],
  ['[\\s]', 'x\u00a0', 1],
  ['[\\D]', '1x', 1],
  ['\\S', '\u3000x', 1],
  ['a.b', 'a\u2028b', 0],
  ['\\"\\-\\#\\/', '"-#/', 0],
  ['[\\-x]', '-', 0],
  ['[]x]', ']', 0],
  ['[^]x]', ']xy', 2],
  ['[[:upper:]_]', 'a_', 1],
  ['[[:punct:]]', 'a{', 1],
  ['\\x{1F600}', 'a😀', 1],
  ['😀', '😀', 0],
  ['\\p{Lu}', 'aΛ', 1],
  ['a$', 'ba\r', 1],
  ['[$]', 'a$', 1],
  ['\\$', 'a$', 1],
])('%s matches in %s', (pattern, text, index) => {
  expect(indexOf(pattern, text)).toBe(index);
});

test.each([
  ['a.b', 'a\udcffb'],
  ['a\\Wb', 'a\udcffb'],
  ['a[^x]b', 'a\udcffb'],
  ['\\bb', 'ébé'],
  ['a$', 'a\r\r'],
])('%s does not match in %j', (pattern, text) => {
  expect(indexOf(pattern, text)).toBeUndefined();
});

test('literal text is not interpreted', () => {
  const pattern = javaScriptPattern(
    queryFor('/', '^a.[b]$\\d{1}|/', { literal: true, caseSensitive: false }),
  );
  expect(pattern.exec('x^A.[B]$\\D{1}|/')?.index).toBe(1);
  expect(pattern.test('a')).toBe(false);
});

test.each(['(', '[a', 'a{2', '*', '\\', '(?x)a', '\\y', '[a[b]]'])('rejects %s with a reason', (pattern) => {
  const compile = () => javaScriptPattern(queryFor('/', pattern));
  expect(compile).toThrow(/^pattern is not a valid regular expression: .+/);
  expect(compile).toThrow(expect.objectContaining({ kind: 'refused' }));
});

test('rejects a line ending and a NUL byte', () => {
  expect(() => checkPattern(queryFor('/', 'a\nb'))).toThrow('pattern must not contain a line end');
  expect(() => javaScriptPattern(queryFor('/', 'a\\nb'))).toThrow('pattern must not contain a line end');
  expect(() => checkPattern(queryFor('/', 'a\0b'))).toThrow('pattern must not contain a NUL byte');
});

test('the ripgrep pattern allows a carriage return at the end of a line', () => {
  expect(ripgrepPattern(queryFor('/', '^a[$[$]$]\\$|b$'))).toBe('^a[$[$]$]\\$|b(?:\\r??$)');
  expect(ripgrepPattern(queryFor('/', 'b$', { literal: true }))).toBe('b$');
});
