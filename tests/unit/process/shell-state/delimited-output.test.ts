import { describe, expect, test } from 'vitest';
import { DelimitedOutput } from '../../../../src/process/shell-state/delimited-output.ts';

const TEXT = 'noise\0mark\0the content\0with \0mar\0mark\0more noise\0mark\0';

describe('DelimitedOutput', () => {
  test.each(Array.from({ length: TEXT.length }, (_, index) => index + 1))(
    'finds the content in chunks of %i bytes',
    (size) => {
      const output = new DelimitedOutput('mark', 100);
      for (let at = 0; at < TEXT.length; at += size) {
        const piece = Buffer.from(TEXT.slice(at, at + size));
        output.push(piece);
        // The buffer is reused after the call.
        piece.fill(0);
      }
      expect(output.content?.toString()).toBe('the content\0with \0mar');
    },
  );

  test('returns empty content, and null without a second delimiter', () => {
    const empty = new DelimitedOutput('mark', 100);
    empty.push(Buffer.from('\0mark\0\0mark\0'));
    expect(empty.content?.toString()).toBe('');
    const open = new DelimitedOutput('mark', 100);
    open.push(Buffer.from('\0mark\0text\0mark'));
    expect([open.content, open.overflowed]).toEqual([null, false]);
  });

  test('drops content that is too long, after any amount of output before it', () => {
    const output = new DelimitedOutput('mark', 10);
    for (let count = 0; count < 1_000; count++) output.push(Buffer.alloc(100, 'x'));
    output.push(Buffer.from('\0mark\0'));
    expect(output.overflowed).toBe(false);
    output.push(Buffer.alloc(10, 'x'));
    expect(output.overflowed).toBe(false);
    output.push(Buffer.alloc(7, 'x'));
    expect(output.overflowed).toBe(true);
    output.push(Buffer.from('\0mark\0'));
    expect(output.content).toBeNull();
  });
});
