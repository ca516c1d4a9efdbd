import { expect, test } from 'vitest';
import { printable, printableName } from '../../../console/src/base/format.ts';

test.each([
  ['an escape', '\u001b[31m'],
  ['a control character of 8 bits', '\u009b'],
  ['a line separator', '\u2028'],
  ['a bidi override', '\u202e'],
  ['a soft hyphen', '\u00ad'],
  ['a zero-width space', '\u200b'],
  ['a joiner', '\u200d'],
  ['a variation selector', '\ufe0f'],
  ['a grapheme joiner', '\u034f'],
  ['a Hangul filler', '\u3164'],
  ['a half-width Hangul filler', '\uffa0'],
  ['a tag', '\u{e0061}'],
  ['an interlinear mark', '\ufff9'],
])('replaces %s', (_, text) => {
  expect(printable(`x${text}.sh`)).toBe(`x\ufffd${text.slice(text.codePointAt(0)! > 0xffff ? 2 : 1)}.sh`);
});

test.each([
  'a\tb\nc',
  '\u{1f468}\u200d\u{1f469}',
  '\u2764\ufe0f',
  '1\ufe0f\u20e3',
  '\u845b\u{e0100}',
  'naïve ﬁle — 한글',
])('keeps %j', (text) => {
  expect(printable(text)).toBe(text);
});

test('replaces tabs and line breaks in names', () => {
  expect(printableName('a\tb\nc')).toBe('a\ufffdb\ufffdc');
});
