import { expect, test } from 'vitest';
import { exitCodeOf } from '../../../../src/cli/programs/exit-codes.ts';

test.each([
  [0, 0],
  [7, 7],
  [-5, 251],
  [256, 255],
  // STATUS_DLL_NOT_FOUND of Windows.
  [0xc000_0135, 0x35],
  [0xc000_0100, 255],
])('a program that exits with %i gives the command the code %i', (exitCode, code) => {
  expect(exitCodeOf({ exitCode })).toBe(code);
});
