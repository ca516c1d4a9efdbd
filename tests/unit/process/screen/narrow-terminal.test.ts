import { expect, test } from 'vitest';
import { drawScreen } from '../../../../src/process/screen/headless-terminal.ts';

const NARROW = { rows: 1, cols: 1 };
const WIDE = { rows: 2, cols: 10 };
const text = Buffer.from('ab');

test('a terminal of one column is reported with its size, and not as exact', async () => {
  const screen = await drawScreen({ size: NARROW, input: [], exact: true }, [text]);
  expect(screen).toMatchObject({ size: NARROW, cursor: { row: 0, col: 0 }, exact: false });
});

test('so is a terminal that was resized to one column', async () => {
  const screen = await drawScreen({ size: WIDE, input: [], exact: true }, [text, NARROW]);
  expect(screen).toMatchObject({ size: NARROW, exact: false });
});

test('a terminal of two columns is exact', async () => {
  const size = { rows: 1, cols: 2 };
  const screen = await drawScreen({ size, input: [], exact: true }, [text]);
  expect(screen).toMatchObject({ size, text: 'ab', exact: true });
});
