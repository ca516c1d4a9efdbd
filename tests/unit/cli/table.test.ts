import { expect, test } from 'vitest';
import { table } from '../../../src/cli/table.ts';

test('aligns columns by the width of their characters', () => {
  expect(
    table([
      ['NAME', 'STATE', 'COMMAND'],
      ['日本', 'running', 'a'],
      ['b', 'x', ''],
    ]),
  ).toBe('NAME  STATE    COMMAND\n日本  running  a\nb     x\n');
});

test('cuts the last column to the width of the terminal, but not to nothing', () => {
  const rows = [
    ['A', 'B'],
    ['one', 'a long command line of forty characters..'],
  ];
  expect(table(rows, { width: 20 })).toBe('A    B\none  a long command…\n');
  expect(table(rows, { width: 3 })).toBe('A    B\none  a long comm…\n');
});

test('control characters become escapes, which count for the alignment', () => {
  const rows = [
    ['A', 'B'],
    ['\x1b[2J', '\u202e\x07'],
  ];
  expect(table(rows)).toBe('A        B\n\\x1b[2J  \\u202e\\x07\n');
});

test('colours do not change the alignment', () => {
  const colour = (cell: string, row: number, column: number) =>
    row === 1 && column === 0 ? `\x1b[31m${cell}\x1b[0m` : cell;
  const rows = [
    ['AAAA', 'B'],
    ['x', 'y'],
  ];
  expect(table(rows, { colour })).toBe('AAAA  B\n\x1b[31mx\x1b[0m     y\n');
});
