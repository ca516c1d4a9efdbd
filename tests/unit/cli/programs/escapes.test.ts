import { describe, expect, test } from 'vitest';
import { EscapeFilter } from '../../../../src/cli/programs/escapes.ts';

/** Types the pieces one after the other. `<` stands for the escape `~.` and `?` for `~?`. */
function typed(...pieces: string[]): string {
  const filter = new EscapeFilter();
  return pieces
    .map((piece) => {
      const { bytes, action } = filter.filter(Buffer.from(piece));
      return Buffer.from(bytes).toString() + (action === null ? '' : action === 'detach' ? '<' : '?');
    })
    .join('|');
}

describe('escapes', () => {
  test.each([
    ['detach at the beginning', '~.', '<'],
    ['detach after a return', 'ls\r~.', 'ls\r<'],
    ['detach after a newline', 'ls\n~.', 'ls\n<'],
    ['drop what follows', 'a\r~.rest', 'a\r<'],
    ['ask for help, and the line still starts', '~?~.', '<'],
    ['send one tilde for two', '~~.x', '~.x'],
    ['leave a tilde inside a line alone', 'a~.', 'a~.'],
    ['leave the tilde of a path alone', 'cd ~/x\r', 'cd ~/x\r'],
    ['leave an unknown escape alone', '~a~.', '~a~.'],
    ['leave a line with only a tilde alone', '~\r~.', '~\r<'],
  ])('%s', (_name, input, expected) => {
    expect(typed(input)).toBe(expected);
  });

  test('work when the characters arrive one by one', () => {
    expect(typed('a', '\r', '~', '.')).toBe('a|\r||<');
    expect(typed('~', '?', '~', '~', 'x')).toBe('|?||~|x');
    expect(typed('a', '~', '.')).toBe('a|~|.');
    expect(typed('~', '.', '~', '.')).toBe('|<||<');
  });

  test('hold a tilde back until the next character', () => {
    expect(typed('~', '/')).toBe('|~/');
  });

  test('work after any key while keys are ignored', () => {
    const filter = new EscapeFilter();
    const ignored = (text: string) => filter.filter(Buffer.from(text), true).action;
    expect([ignored('abc'), ignored('~~'), ignored('x~'), ignored('.')]).toEqual([
      null,
      null,
      null,
      'detach',
    ]);
  });

  test('pass all other bytes on', () => {
    const bytes = Uint8Array.from({ length: 256 }, (_, index) => index);
    expect(new EscapeFilter().filter(bytes)).toEqual({ bytes, action: null });
  });
});
