import fc from 'fast-check';
import { expect, test } from 'vitest';
import { LineSplitter } from '../../../src/base/line-splitter.ts';

/** The lines of a stream that arrives in the given pieces, the unfinished one last. */
function split(pieces: readonly Buffer[], maxLineBytes = 1_000): string[] {
  const splitter = new LineSplitter(maxLineBytes);
  const lines = pieces.flatMap((piece) => [...splitter.push(piece)]);
  return [...lines, splitter.rest()].map((line) => line.toString('latin1'));
}

test.each([
  ['', ['']],
  ['a', ['a']],
  ['a\n', ['a', '']],
  ['a\r\nb\n', ['a', 'b', '']],
  ['\n\n\r\n', ['', '', '', '']],
  ['a\rb\n', ['a\rb', '']],
  ['a\r\r\n', ['a\r', '']],
  ['a\r', ['a']],
])('LineSplitter splits %j into %j', (text, lines) => {
  expect(split([Buffer.from(text)])).toEqual(lines);
});

test('LineSplitter gives the same lines however the stream is cut into chunks', () => {
  const byte = fc.constantFrom(...Buffer.from('ab\r\n\u00e9'));
  fc.assert(
    fc.property(fc.array(fc.array(byte, { maxLength: 6 }), { maxLength: 20 }), (pieces) => {
      const buffers = pieces.map((piece) => Buffer.from(piece));
      const whole = Buffer.concat(buffers);
      const expected = whole
        .toString('latin1')
        .split('\n')
        .map((line) => line.replace(/\r$/, ''));
      expect(split(buffers)).toEqual(expected);
      expect(split([whole])).toEqual(expected);
    }),
    { numRuns: 500 },
  );
});

test('rest() returns the unfinished line once', () => {
  const splitter = new LineSplitter(10);
  expect([...splitter.push(Buffer.from('abc'))]).toEqual([]);
  expect(splitter.rest().toString()).toBe('abc');
  expect(splitter.rest()).toHaveLength(0);
});

test.each([
  ['in one piece', ['12345678901\n']],
  ['without an end', ['12345678901']],
  ['in several pieces', ['12345', '67890', '1']],
  ['after a valid line', ['ok\n12345678901']],
])('LineSplitter rejects a line over the limit %s', (_name, pieces) => {
  expect(() =>
    split(
      pieces.map((piece) => Buffer.from(piece)),
      10,
    ),
  ).toThrow('a line is longer than 10 bytes');
});

test('LineSplitter yields the lines before one that is too long', () => {
  const lines: string[] = [];
  expect(() => {
    for (const line of new LineSplitter(3).push(Buffer.from('a\nb\n1234\n'))) lines.push(line.toString());
  }).toThrow('longer than 3');
  expect(lines).toEqual(['a', 'b']);
});

test('LineSplitter accepts a line of exactly the limit', () => {
  expect(split([Buffer.from('1234567890\n')], 10)).toEqual(['1234567890', '']);
});

test('LineSplitter joins a character that is cut in two, and accepts a Uint8Array', () => {
  const splitter = new LineSplitter(10);
  expect([...splitter.push(Uint8Array.of(0xc3))]).toEqual([]);
  const lines = [...splitter.push(Uint8Array.of(0xa9, 0x0a, 0x61, 0x0d, 0x0a))];
  expect(lines.map((line) => line.toString())).toEqual(['\u00e9', 'a']);
});
