import { describe, expect, it } from 'vitest';
import { EVICTION_LIMITS } from '../../../../src/process/screen/evicted-screen.ts';
import { FoldBudget } from '../../../../src/process/screen/fold-budget.ts';
import {
  EVICTED_HARD_BYTES,
  FOLD_REST_FACTOR,
  MAX_REDRAW_BYTES,
  MAX_RESIZES,
} from '../../../../src/process/screen/limits.ts';
import { clientTerminal, feed, TrackedTerminal, visibleState } from '../../../support/terminals.ts';

const SIZE = { rows: 10, cols: 40 };
const RETENTION = { headBytes: 0, tailBytes: 100 };

/** Never allows to fold. */
const noBudget = () => {
  const budget = new FoldBudget(() => 0);
  budget.tryBegin();
  return budget;
};

const tracked = (budget: FoldBudget = noBudget()) =>
  new TrackedTerminal(SIZE, RETENTION, EVICTION_LIMITS, budget);

/** Moves the cursor up, so that nothing can be known to have scrolled off. */
const frame = (number: number) => `\x1b[B\x1b[2Dframe ${number} ${'x'.repeat(60)}\x1b[A`;

function writeFrames(terminal: TrackedTerminal, bytes: number): void {
  for (let written = 0, number = 0; written < bytes; written += 80) terminal.write(frame(number++));
}

async function redrawn(terminal: TrackedTerminal) {
  const screen = await terminal.tracker.draw();
  const client = clientTerminal(screen.size);
  await feed(client, screen.redraw);
  return { screen, client };
}

describe('output that is evicted faster than it may be folded', () => {
  it('takes a bounded amount of memory', () => {
    const terminal = tracked();
    let highest = 0;
    for (let round = 0; round < 40; round++) {
      writeFrames(terminal, 64 * 1024);
      highest = Math.max(highest, terminal.tracker.retainedBytes);
    }
    expect(highest).toBeGreaterThan(EVICTED_HARD_BYTES / 2);
    expect(highest).toBeLessThanOrEqual(EVICTED_HARD_BYTES + 4096);
  });

  it('leaves the modes, the title and the pen that it set', async () => {
    const terminal = tracked();
    terminal.write(
      '\x1b[?1049h\x1b[?1h\x1b[?2004;1006h\x1b[?1002h\x1b[?25l\x1b]2;editor\x07\x1b[1;31m\x1b[4 q\x1b=',
    );
    writeFrames(terminal, 3 * EVICTED_HARD_BYTES);
    const { screen, client } = await redrawn(terminal);
    expect(screen).toMatchObject({ exact: false, alternate: true, title: 'editor' });
    expect(screen.redraw.toString()).toContain('\x1b[?25l');
    expect(screen.redraw.toString()).toContain('\x1b[?1006h');
    expect(screen.redraw.toString()).toContain('\x1b[4 q');
    expect(client.modes).toMatchObject({
      applicationCursorKeysMode: true,
      applicationKeypadMode: true,
      bracketedPasteMode: true,
      mouseTrackingMode: 'drag',
    });
    await feed(client, '\x1b[1;1Hx');
    const cell = client.buffer.active.getLine(0)!.getCell(0)!;
    expect([cell.isBold() !== 0, cell.getFgColor()]).toEqual([true, 1]);
  });

  it.each([
    ['a full clear', '\x1b[H\x1b[2J'],
    ['a clear from the first line', '\x1b[H\x1b[J'],
    ['a reset', '\x1bc'],
    ['the alternate screen', '\x1b[?1049h\x1b[H'],
    ['lines that fill the screen twice', Array.from({ length: 25 }, (_, line) => `${line}\r\n`).join('')],
  ])('is exact again after %s', async (_, output) => {
    const terminal = tracked();
    writeFrames(terminal, 2 * EVICTED_HARD_BYTES);
    expect((await terminal.tracker.draw()).exact).toBe(false);
    terminal.write(output);
    terminal.write('known');
    const { screen, client } = await redrawn(terminal);
    expect(screen.exact).toBe(true);
    const everything = clientTerminal(SIZE);
    await feed(everything, output);
    await feed(everything, 'known');
    expect(visibleState(client).lines).toEqual(visibleState(everything).lines);
  });

  it.each([
    ['a clear, while the position of the cursor is unknown', '\x1b[2J'],
    ['a position, while the content is unknown', '\x1b[2;2H'],
    ['too few lines', '1\r\n2\r\n3\r\n'],
  ])('is not exact again after %s', async (_, output) => {
    const terminal = tracked();
    writeFrames(terminal, 2 * EVICTED_HARD_BYTES);
    terminal.write(output);
    expect((await terminal.tracker.draw()).exact).toBe(false);
  });

  it('is not exact again when it leaves the alternate screen', async () => {
    const terminal = tracked();
    writeFrames(terminal, 2 * EVICTED_HARD_BYTES);
    terminal.write('\x1b[?1049h\x1b[H\x1b[?1049l');
    expect((await terminal.tracker.draw()).exact).toBe(false);
  });
});

describe('evicted output', () => {
  it('of plain lines is dropped without a headless terminal', async () => {
    const terminal = tracked();
    for (let line = 0; line < 50_000; line++) terminal.write(`\x1b[3${line % 8}mline ${line}\x1b[K\r\n`);
    expect(terminal.tracker.retainedBytes).toBeLessThan(EVICTED_HARD_BYTES);
    const { screen } = await redrawn(terminal);
    expect(screen.exact).toBe(true);
    expect(screen.text).toBe(
      [...Array.from({ length: 9 }, (_, row) => `line ${49_991 + row}`), ''].join('\n'),
    );
  });

  it('of zero bytes leaves nothing', async () => {
    const terminal = tracked();
    terminal.write('text');
    for (let round = 0; round < 40; round++) terminal.write(Buffer.alloc(64 * 1024));
    expect(await terminal.tracker.draw()).toMatchObject({
      exact: true,
      text: expect.stringContaining('text'),
    });
  });

  it('keeps the saved cursor, the margins and the tab stops when it is folded', async () => {
    const terminal = tracked(new FoldBudget(() => 0));
    const everything = clientTerminal(SIZE);
    const setup = '\x1b[2;5r\x1b[4;7H\x1b[1;32m\x1b7\x1b[m\x1b[3g\x1b[1;6H\x1bH\x1b[1;1H';
    const frames = Array.from({ length: 2000 }, (_, number) => frame(number)).join('');
    const reveal = '\r\tT\x1b8saved\n\n\n\nend';
    for (const output of [setup, frames, reveal]) {
      terminal.write(output);
      await feed(everything, output);
      await terminal.tracker.draw();
    }
    const { client } = await redrawn(terminal);
    expect(visibleState(client)).toEqual(visibleState(everything));
  });

  it('of a control string without an end is shortened', async () => {
    const terminal = tracked();
    terminal.write('before\x1b]1337;File=');
    for (let round = 0; round < 100; round++) terminal.write('a'.repeat(10_000));
    expect(terminal.tracker.retainedBytes).toBeLessThanOrEqual(EVICTED_HARD_BYTES + 10_000);
    terminal.write('\x07after');
    expect((await terminal.tracker.draw()).text).toContain('after');
    expect((await terminal.tracker.draw()).text).not.toContain('aaaa');
  });

  it('of a drawing that is too large leaves only its modes', async () => {
    const size = { rows: 200, cols: 400 };
    const terminal = new TrackedTerminal(size, RETENTION, EVICTION_LIMITS, new FoldBudget(() => 0));
    terminal.write('\x1b[?2004h');
    for (let row = 1; row <= size.rows; row++) {
      const cells = Array.from({ length: size.cols }, (_, col) => `\x1b[38;2;${col % 256};${row % 256};7mx`);
      terminal.write(`\x1b[${row};1H${cells.join('')}`);
      await new Promise(setImmediate);
    }
    await terminal.tracker.draw();
    terminal.write('more '.repeat(100));
    expect(terminal.tracker.retainedBytes).toBeLessThan(MAX_REDRAW_BYTES + EVICTED_HARD_BYTES);
    const screen = await terminal.tracker.draw();
    expect(screen.redraw.toString()).toContain('\x1b[?2004h');
  });

  it.each([
    ['retained', 10_000],
    ['evicted', 10],
  ])('is not exact after more resizes in %s output than are remembered', async (_, tailBytes) => {
    const terminal = new TrackedTerminal(SIZE, { headBytes: 0, tailBytes }, EVICTION_LIMITS, noBudget());
    for (let resize = 0; resize <= MAX_RESIZES + 20; resize++) {
      terminal.write('x');
      terminal.tracker.resize({ rows: 10 + (resize % 2), cols: 40 });
    }
    expect((await terminal.tracker.draw()).exact).toBe(false);
  });
});

describe('the budget for folding', () => {
  it('allows one terminal at a time, and pauses after each', () => {
    let now = 1000;
    const budget = new FoldBudget(() => now);
    expect(budget.tryBegin()).toBe(true);
    expect(budget.tryBegin()).toBe(false);
    now += 2;
    budget.end();
    now += 2 * FOLD_REST_FACTOR - 1;
    expect(budget.tryBegin()).toBe(false);
    now += 1;
    expect(budget.tryBegin()).toBe(true);
  });
});
