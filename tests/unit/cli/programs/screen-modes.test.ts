import { expect, test } from 'vitest';
import { ScreenModes } from '../../../../src/cli/programs/screen-modes.ts';

function modesAfter(...pieces: string[]): ScreenModes {
  const modes = new ScreenModes();
  for (const piece of pieces) modes.follow(Buffer.from(piece));
  return modes;
}

test.each([
  ['plain text', ['hello\r\n\x1b[1mbold\x1b[m'], ''],
  ['the alternate screen', ['\x1b[?1049h'], '\x1b[?1049l\x1b[m'],
  ['a hidden cursor', ['\x1b[?25l'], '\x1b[?25h\x1b[m'],
  ['several modes in one sequence', ['\x1b[?1000;1006h'], '\x1b[?1000l\x1b[?1006l\x1b[m'],
  ['the keypad', ['\x1b='], '\x1b>\x1b[m'],
  ['modes that the program has reset', ['\x1b[?1049h\x1b[?25l\x1b=', 'x\x1b[?25h\x1b[?1049l\x1b>'], ''],
  ['a sequence in three pieces', ['x\x1b', '[?10', '49h'], '\x1b[?1049l\x1b[m'],
])('resets %s', (_name, pieces, expected) => {
  const modes = modesAfter(...pieces);
  expect(modes.isAlternate).toBe(expected.includes('1049'));
  expect(modes.reset()).toBe(expected);
  expect(modes.reset()).toBe('');
});

test('an endless sequence is not collected', () => {
  const modes = modesAfter('\x1b[?', ...Array.from({ length: 100 }, () => '1;'.repeat(100)), 'h');
  expect(modes.reset()).toBe('');
});
