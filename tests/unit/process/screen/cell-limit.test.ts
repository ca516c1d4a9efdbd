import { describe, expect, it } from 'vitest';
import { limitCells } from '../../../../src/process/screen/cell-limit.ts';
import { loadLibrary } from '../../../../src/process/screen/headless-terminal.ts';
import { write } from '../../../../src/process/screen/terminal-probe.ts';

async function cellsOf(output: string): Promise<string[]> {
  const { Terminal, Unicode11Addon } = loadLibrary();
  const terminal = new Terminal({ rows: 2, cols: 10, allowProposedApi: true });
  limitCells(terminal, new Unicode11Addon());
  await write(terminal, Buffer.from(output));
  const line = terminal.buffer.active.getLine(0)!;
  const cells = Array.from({ length: 10 }, (_, col) => line.getCell(col)!.getChars());
  terminal.dispose();
  return cells;
}

describe('a cell of a terminal with a limit', () => {
  it('has a letter and its combining characters', async () => {
    const cells = await cellsOf('e\u0301\u0323x\u{1f600}y');
    expect(cells.slice(0, 5)).toEqual(['e\u0301\u0323', 'x', '\u{1f600}', '', 'y']);
  });

  it('has at most 32 characters; the rest goes to the next cells', async () => {
    const cells = await cellsOf(`a${'\u0301'.repeat(80)}`);
    expect(cells.map((cell) => cell.length)).toEqual([32, 32, 17, 0, 0, 0, 0, 0, 0, 0]);
  });
});
