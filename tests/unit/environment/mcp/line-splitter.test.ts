import { expect, test } from 'vitest';
import { LineSplitter } from '../../../../src/environment/mcp/line-splitter.ts';

function lines(splitter: LineSplitter, ...texts: string[]): string[] {
  return texts.flatMap((text) => [...splitter.push(Buffer.from(text, 'latin1'))]);
}

test('lines are put together from pieces, whatever their ends', () => {
  const splitter = new LineSplitter(100);
  expect(lines(splitter, 'a\nb', 'c\r\n', '\n', 'rest')).toEqual(['a', 'bc', '']);
  expect(lines(splitter, '\n')).toEqual(['rest']);
});

test('a character may be cut in two', () => {
  expect(lines(new LineSplitter(100), '\xc3', '\xa9\n')).toEqual(['\u00e9']);
});

test('a line that is too long is an error, before its end comes', () => {
  expect(lines(new LineSplitter(3), 'abc\nabc\n')).toEqual(['abc', 'abc']);
  expect(() => lines(new LineSplitter(3), 'ab', 'cd')).toThrow('a line has more than 3 bytes');
});
