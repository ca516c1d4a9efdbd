import { expect, test } from 'vitest';
import { SEARCH_MAX_LINE_BYTES, SEARCH_TEXT_LENGTH } from '../../../../src/files/limits.ts';
import { excerpt, matchingLines } from '../../../../src/files/search/content.ts';

function find(content: Buffer | string, pattern: RegExp, onLongLine = () => {}) {
  return [...matchingLines(Buffer.from(content), pattern, onLongLine)].map(({ line, column, text }) => [
    line,
    column,
    text,
  ]);
}

test('lines and columns are counted from one, columns in bytes', () => {
  expect(find('x\n\né foo foo\nfoo', /foo/u)).toEqual([
    [3, 4, 'é foo foo'],
    [4, 1, 'foo'],
  ]);
});

test('the last line ending starts no further line', () => {
  expect(find('\n\n', /^/u)).toEqual([
    [1, 1, ''],
    [2, 1, ''],
  ]);
  expect(find('', /^/u)).toEqual([]);
});

test('a carriage return before the line ending is not returned', () => {
  expect(find('foo\r\nbar\r', /./su)).toEqual([
    [1, 1, 'foo'],
    [2, 1, 'bar'],
  ]);
});

test('invalid UTF-8 bytes count as one byte each and become U+FFFD', () => {
  expect(find(Buffer.from('é\xff\xe2\x82 foo', 'latin1'), /foo/u)).toEqual([
    [1, 6, '\ufffd\ufffd\ufffd\ufffd foo'],
  ]);
  expect(find(Buffer.concat([Buffer.from('é😀'), Buffer.from([0x80, 0x78])]), /x/u)).toEqual([
    [1, 8, 'é😀\ufffdx'],
  ]);
});

test.each([
  ['UTF-8', Buffer.from('\ufefffoo\n')],
  ['UTF-16, little end first', Buffer.from('\ufefffoo\n', 'utf16le')],
  ['UTF-16, big end first', Buffer.from('\ufefffoo\n', 'utf16le').swap16()],
])('decodes a file with the byte order mark of %s', (_, content) => {
  expect(find(content, /^foo$/u)).toEqual([[1, 1, 'foo']]);
});

test('nothing matches in a file with a NUL byte', () => {
  expect(find(`foo\n${'x\n'.repeat(50_000)}\0`, /foo/u)).toEqual([]);
});

test('a line that is too long is counted and reported but not searched', () => {
  const longest = 'a'.repeat(SEARCH_MAX_LINE_BYTES);
  const content = `a\n${longest}a\na\n${longest}\na\n${longest}a`;
  let reported = 0;
  expect(
    find(content, /a/u, () => {
      reported++;
    }).map(([line]) => line),
  ).toEqual([1, 3, 4, 5]);
  expect(reported).toBe(2);
  expect(find(`${longest}a\na`, /a/u).map(([line]) => line)).toEqual([2]);
});

test('a long line is cut around the match, between characters', () => {
  const side = SEARCH_TEXT_LENGTH;
  const whole = 'x'.repeat(side);
  expect(excerpt(whole, 0)).toBe(whole);
  expect(excerpt(`${whole}y`, 0)).toBe(`${whole}…`);
  expect(excerpt(`y${whole}`, side)).toBe(`…${whole}`);
  const middle = excerpt(`${whole}foo${whole}`, side);
  expect(middle).toMatch(/^…x+foox+…$/);
  expect(middle).toHaveLength(side + 2);
  for (const shift of ['', 'x']) {
    expect(excerpt(`${shift}${'😀'.repeat(side)}`, side)).toMatch(/^…(?:😀)+…$/u);
  }
});
