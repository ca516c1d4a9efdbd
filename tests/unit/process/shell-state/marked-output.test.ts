import { describe, expect, test } from 'vitest';
import { MarkedOutput } from '../../../../src/process/shell-state/marked-output.ts';

const TEXT = 'noise\0mark\0the content\0with \0mar\0mark\0more noise\0mark\0';

describe('the text between two marks', () => {
  test.each(Array.from({ length: TEXT.length }, (_, index) => index + 1))('in pieces of %i', (size) => {
    const output = new MarkedOutput('mark', 100);
    for (let at = 0; at < TEXT.length; at += size) {
      const piece = Buffer.from(TEXT.slice(at, at + size));
      output.push(piece);
      // Bytes are only lent.
      piece.fill(0);
    }
    expect(output.content?.toString()).toBe('the content\0with \0mar');
  });

  test('may be empty, and is missing without a second mark', () => {
    const empty = new MarkedOutput('mark', 100);
    empty.push(Buffer.from('\0mark\0\0mark\0'));
    expect(empty.content?.toString()).toBe('');
    const open = new MarkedOutput('mark', 100);
    open.push(Buffer.from('\0mark\0text\0mark'));
    expect([open.content, open.overflown]).toEqual([null, false]);
  });

  test('is given up when it is too long; what comes before it may be of any length', () => {
    const output = new MarkedOutput('mark', 10);
    for (let count = 0; count < 1_000; count++) output.push(Buffer.alloc(100, 'x'));
    output.push(Buffer.from('\0mark\0'));
    expect(output.overflown).toBe(false);
    output.push(Buffer.alloc(10, 'x'));
    expect(output.overflown).toBe(false);
    output.push(Buffer.alloc(7, 'x'));
    expect(output.overflown).toBe(true);
    output.push(Buffer.from('\0mark\0'));
    expect(output.content).toBeNull();
  });
});
