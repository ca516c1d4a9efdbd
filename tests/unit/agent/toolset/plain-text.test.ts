import { createRequire } from 'node:module';
import type * as Headless from '@xterm/headless';
import fc from 'fast-check';
import { describe, expect, onTestFinished, test } from 'vitest';
import { plainText } from '../../../../src/agent/toolset/text/plain-text.ts';
import { ANY_CHARACTER } from '../../../support/any-character.ts';

const { Terminal } = createRequire(import.meta.url)('@xterm/headless') as typeof Headless;

describe('plainText', () => {
  test.each([
    ['colors', '\x1b[1;31mred\x1b[0m plain', 'red plain'],
    ['titles and links', '\x1b]0;title\x07a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\', 'alink'],
    ['device control strings', 'a\x1bPq#0;2;0\n#0~\x1b\\b', 'ab'],
    ['C1 controls', 'a\x9b31mb\x9d0;t\x9cc\x85d', 'abcd'],
    ['character sets and cursor keys', '\x1b(B\x1b=\x1b7a\x1b8\x1bM', 'a'],
    ['a sequence that CAN ends', 'a\x1b]0;x\x18b', 'ab'],
    ['a sequence that another one ends', '\x1b[31\x1b[0mx', 'x'],
    ['CRLF', 'a\r\nb\r\r\nc', 'a\nb\nc'],
    ['progress bars', '10%\r20%\r100%\ndone', '100%\ndone'],
    ['erased lines', 'downloading\r\x1b[Kdone', 'done'],
    ['overwritten text', 'abcdef\rxy', 'xycdef'],
    ['bold by overstriking', 'N\bNA\bAM\bM', 'NAM'],
    ['other controls', 'a\x00\x07\x0b\x7fb\tc', 'ab\tc'],
    ['a string without an end', 'a\x1bPb\nc', 'ab\nc'],
    ['a sequence without an end', 'a\x1b[31', 'a31'],
  ])('removes or applies %s', (_, text, expected) => {
    expect(plainText(text)).toBe(expected);
  });

  const controls = fc.constantFrom(
    '\x1b',
    '\x1b[',
    '\x1b]',
    '\x1bP',
    '\x1b\\',
    '\x07',
    '\r',
    '\b',
    '\x9b',
    '\x9d',
    '\x9c',
    '\x18',
    '0;1',
    'm',
    'K',
    'C',
    'D',
    'G',
  );
  const output = fc
    .array(fc.oneof(controls, fc.string({ unit: ANY_CHARACTER })), { maxLength: 60 })
    .map((parts) => parts.join(''));

  test('leaves no control characters but tabs and line feeds, and is stable', () => {
    fc.assert(
      fc.property(output, (text) => {
        const plain = plainText(text);
        expect(plain).not.toMatch(/[\x00-\x08\x0b-\x1f\x7f-\x9f]/);
        expect(plainText(plain)).toBe(plain);
      }),
      { numRuns: 500 },
    );
  });

  test('keeps text without controls, and the number of line feeds outside of strings', () => {
    fc.assert(
      fc.property(fc.array(fc.string({ unit: 'grapheme' }), { maxLength: 20 }), (lines) => {
        const text = lines.join('\n').replace(/[\x00-\x08\x0b-\x1f\x7f-\x9f]/g, '');
        expect(plainText(text)).toBe(text);
        expect(plainText(text.replaceAll('\n', '\x1b[0m\r\n'))).toBe(text);
      }),
      { numRuns: 200 },
    );
  });

  test('shows one line as a terminal does', async () => {
    const move = fc
      .tuple(fc.constantFrom('C', 'D', 'G', 'K'), fc.constantFrom('', '0', '1', '2', '7'))
      .map(([final, count]) => `\x1b[${count}${final}`);
    const part = fc.oneof(
      fc.stringMatching(/^[a-z .]{1,8}$/),
      fc.constantFrom('\r', '\b', '\x1b[1m', '\x1b[0;3m'),
      move,
    );
    await fc.assert(
      fc.asyncProperty(fc.array(part, { maxLength: 30 }), async (parts) => {
        const text = parts.join('');
        const terminal = new Terminal({ rows: 2, cols: 400, allowProposedApi: true });
        await new Promise<void>((resolve) => terminal.write(text, resolve));
        const shown = terminal.buffer.active.getLine(0)!.translateToString(true).trimEnd();
        terminal.dispose();
        expect(plainText(text).trimEnd()).toBe(shown);
      }),
      { numRuns: 300 },
    );
  });

  test('is linear in the length of its input', () => {
    const text = `${'\x1b]0;'.repeat(100_000)}${'\x1bP'.repeat(100_000)}${'x\r'.repeat(100_000)}${'\x1b[1000G'.repeat(50_000)}`;
    expect(plainText(text).length).toBeLessThan(2_000_000);
  });

  const LENGTH = 1024 * 1024;

  test.each([
    ['strings without an end', '\x90'],
    ['strings of two kinds without an end', '\x90\x9d'],
    ['strings that others end', '\x1bP\x1b]'],
    ['sequences without a final character', '\x9b1'],
  ])('looks at each character of %s a few times only', (_, part) => {
    const { charCodeAt } = String.prototype;
    let count = 0;
    onTestFinished(() => {
      String.prototype.charCodeAt = charCodeAt;
    });
    String.prototype.charCodeAt = function (index) {
      if (++count > 10 * LENGTH) throw new Error('too many characters were looked at');
      return charCodeAt.call(this, index);
    };
    expect(() => plainText(part.repeat(LENGTH / part.length))).not.toThrow();
    expect(count).toBeGreaterThan(LENGTH / 2);
  });

  test.each([
    ['a line', '\x1b[2K', ''],
    ['a line to the cursor', '\x1b[1K', ''],
    ['and writes a line', '\x1b[2Kx', 'x'],
    ['and writes the beginning of a line', '\rx\x1b[500C\x1b[1K', ''],
  ])('erases %s often without touching its columns', (_, part, shown) => {
    const count = Math.floor(LENGTH / 2 / part.length);
    expect(plainText(`${'a'.repeat(LENGTH / 2)}${part.repeat(count)}\x1b[K`).trim()).toBe(shown);
  });

  test('keeps spaces before the last character of a line', () => {
    const spaces = ' '.repeat(LENGTH / 4);
    expect(plainText(`b\r${spaces}x${spaces}`)).toBe(`${spaces}x`);
  });

  test('returns a text that is not much longer than its input', () => {
    const text = '\x1b[1000Gx\n'.repeat(10_000);
    expect(plainText(text).length).toBeLessThan(3 * text.length);
  });
});
