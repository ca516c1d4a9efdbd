import { describe, expect, test } from 'vitest';
import { LineText, OutputDecoder } from '../../../console/src/views/output/output-text.ts';
import { retainedBytes } from '../../support/retained-memory.ts';

function lineOf(...parts: string[]): string {
  const line = new LineText();
  for (const part of parts) line.append(part);
  return line.text;
}

describe('output without escape sequences', () => {
  const SEQUENCES = [
    ['a colour', 'a\x1b[31mred\x1b[0m', 'ared'],
    ['a title', '\x1b]0;title\x07text', 'text'],
    ['a hyperlink', '\x1b]8;;https://x.example\x1b\\link\x1b]8;;\x1b\\', 'link'],
    ['a character set', 'a\x1b(B\x1b[mb', 'ab'],
    ['a letter of several bytes', 'ä\x1b[1m€', 'ä€'],
    ['a control character', 'a\x1b\x1b[1m\u0007b', 'a\ufffd\ufffdb'],
  ] as const;

  test.each(SEQUENCES)('%s, wherever the chunks end', (_, output, text) => {
    const bytes = Buffer.from(output);
    for (let end = 0; end <= bytes.length; end++) {
      const decoder = new OutputDecoder();
      const chunks = [bytes.subarray(0, end), bytes.subarray(end)];
      expect(chunks.map((chunk) => decoder.decode(chunk)).join('')).toBe(text);
    }
    const decoder = new OutputDecoder();
    expect(Array.from(bytes, (byte) => decoder.decode(Uint8Array.of(byte))).join('')).toBe(text);
  });

  test('shows a sequence that does not end as text', () => {
    const decoder = new OutputDecoder();
    const parts = ['a\x1b]0;', 'x'.repeat(5000), 'y'].map((part) => decoder.decode(Buffer.from(part)));
    expect(parts.map(({ length }) => length)).toEqual([1, '0;'.length + 5000, 1]);
  });

  test('forgets the beginning of a sequence whose end is missing', () => {
    const decoder = new OutputDecoder();
    decoder.decode(Buffer.from('a\x1b[3'));
    decoder.skip();
    expect(decoder.decode(Buffer.from('1mb'))).toBe('1mb');
  });
});

describe('a line of output', () => {
  test.each([
    ['text in several parts', ['one ', '', 'two'], 'one two'],
    ['a return at the end, as before LF', ['one\r'], 'one'],
    ['a return within a part', ['10%\r20%'], '20%'],
    ['a return at the end of a part', ['10%\r', '20%\r', '30%\r'], '30%'],
    ['returns alone', ['one', '\r\r', 'two'], 'two'],
    ['a return after too much text', ['x'.repeat(9000), 'y', '\rdone'], 'done'],
    ['too much text', ['x'.repeat(3999), 'xyz', 'more'], `${'x'.repeat(4000)}…`],
  ])('with %s', (_, parts, text) => {
    expect(lineOf(...parts)).toBe(text);
  });

  test('keeps no memory for what it does not show', () => {
    const long = Buffer.alloc(200_000, 'x');
    const lines = () =>
      Array.from({ length: 100 }, () => {
        const [first, last] = `${long.toString('latin1')}\nlast line of this chunk`.split('\n');
        return [lineOf(first!, first!), lineOf(last!)];
      });
    expect(retainedBytes(lines)).toBeLessThan(10_000_000);
  });
});
