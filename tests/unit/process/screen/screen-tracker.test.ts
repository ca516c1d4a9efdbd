import { describe, expect, it } from 'vitest';
import { MAX_CELL_CHARACTERS, MAX_TITLE_CHARACTERS } from '../../../../src/process/screen/limits.ts';
import { ScreenTracker } from '../../../../src/process/screen/screen-tracker.ts';
import { ScreenThread } from '../../../../src/process/screen-thread.ts';
import { clientTerminal, feed, TrackedTerminal, visibleState } from '../../../support/terminals.ts';

const SIZE = { rows: 5, cols: 20 };
const tracked = () => new TrackedTerminal(SIZE, { headBytes: 64, tailBytes: 1024 });

async function drawnTwice(...outputs: readonly string[]) {
  const [terminal, everything, client] = [tracked(), clientTerminal(SIZE), clientTerminal(SIZE)];
  const [first, ...more] = outputs;
  terminal.write(first!);
  const { redraw } = await terminal.tracker.draw();
  await feed(client, redraw);
  for (const output of more) await feed(client, output);
  await feed(everything, outputs.join(''));
  return {
    terminal,
    redraw: redraw.toString(),
    client: visibleState(client),
    everything: visibleState(everything),
  };
}

describe('the screen of a terminal', () => {
  it('is empty before the first output', async () => {
    const screen = await tracked().tracker.draw();
    expect(screen).toMatchObject({ seq: 0, size: SIZE, title: '', alternate: false, exact: true });
    expect(screen.cursor).toEqual({ row: 0, col: 0 });
    expect(screen.text).toBe('\n\n\n\n');
  });

  it('has the sequence number of the last event that it includes', async () => {
    const terminal = tracked();
    terminal.write('one');
    terminal.write('two');
    terminal.log.mark();
    const drawing = terminal.tracker.draw();
    expect(await drawing).toMatchObject({ seq: 3, text: expect.stringContaining('onetwo') });
    terminal.write('three');
    expect(await terminal.tracker.draw()).toMatchObject({
      seq: 4,
      text: expect.stringContaining('onetwothree'),
    });
  });

  it('is drawn once for all callers that wait for it', async () => {
    const terminal = tracked();
    terminal.write('text');
    const [first, second] = [terminal.tracker.draw(), terminal.tracker.draw()];
    expect(second).toBe(first);
    expect((await first).text).toContain('text');
  });

  it('is not drawn when all callers are gone before it begins', async () => {
    const thread = new ScreenThread();
    let drawings = 0;
    const output = { lastSeq: 1, totalBytes: 4, bytesFrom: () => Buffer.from('text') };
    const tracker = new ScreenTracker(SIZE, output, (prepare, signal) =>
      thread.draw(
        output,
        () => {
          drawings++;
          return prepare();
        },
        signal,
      ),
    );
    const [first, second, third] = [new AbortController(), new AbortController(), new AbortController()];
    const busy = tracker.draw();
    const reason = new Error('gone');
    await new Promise(setImmediate);
    const waiting = [tracker.draw(first.signal), tracker.draw(second.signal)];
    first.abort(reason);
    await expect(waiting[0]).rejects.toBe(reason);
    second.abort(reason);
    await expect(waiting[1]).rejects.toBe(reason);
    const wanted = tracker.draw(third.signal);
    expect((await wanted).text).toContain('text');
    expect((await busy).text).toContain('text');
    expect(drawings).toBe(2);
  });

  it('has a title of limited length', async () => {
    const terminal = tracked();
    terminal.write(`\x1b]2;${'\u{1f600}'.repeat(600)}\x07x`);
    const { title, redraw } = await terminal.tracker.draw();
    expect(title).toBe('\u{1f600}'.repeat(MAX_TITLE_CHARACTERS / 2));
    expect(redraw.length).toBeLessThan(4 * MAX_TITLE_CHARACTERS);
  });

  it('has a limited number of combining characters in a cell, and is not exact then', async () => {
    const drawn = (output: string) => {
      const terminal = new TrackedTerminal(SIZE, { headBytes: 64, tailBytes: 1 << 20 });
      terminal.write(output);
      return terminal.tracker.draw();
    };
    expect(await drawn('e\u0301')).toMatchObject({ text: 'e\u0301\n\n\n\n', exact: true });
    const { text, redraw, exact } = await drawn(`e${'\u0301'.repeat(100_000)}f`);
    expect(text).toBe(`e${'\u0301'.repeat(MAX_CELL_CHARACTERS - 1)}f\n\n\n\n`);
    expect(redraw.length).toBeLessThan(1_000);
    expect(exact).toBe(false);
  });

  it.each([
    ['an escape sequence', 'a\x1b[1', ';31mred'],
    ['a title', '\x1b]2;the ti', 'tle\x07x'],
    ['a character', 'caf\xc3', '\xa9'],
  ])('continues in the middle of %s', async (_, first, second) => {
    const { client, everything } = await drawnTwice(first, second);
    expect(client).toEqual(everything);
  });

  it.each([
    ['line drawing in G0', '\x1b(0', 'qqq\x1b(Bq'],
    ['line drawing in G1', '\x1b)0\x0e', 'qqq\x0fq\x0eq'],
    ['a saved cursor with line drawing', '\x1b(0\x1b7\x1b(B', 'q\x1b8q'],
    ['a line that is full', 'x'.repeat(20), 'next'],
    ['origin mode inside margins', '\x1b[2;4r\x1b[?6h\x1b[2;3H', 'x\x1b[1;1Hy'],
    ['insert mode', 'abc\r\x1b[4h', 'x'],
  ])('continues %s', async (_, first, second) => {
    const { client, everything } = await drawnTwice(first, second);
    expect(client).toEqual(everything);
  });

  it.each([
    ['the mouse and its encoding', '\x1b[?1002h\x1b[?1006h', ['\x1b[?1002h', '\x1b[?1006h']],
    ['a hidden cursor', '\x1b[?25l', ['\x1b[?25l']],
    ['the style of the cursor', '\x1b[6 q', ['\x1b[6 q']],
    ['the kitty keyboard protocol', '\x1b[>1u\x1b[>5u', ['\x1b[>1u\x1b[>5u']],
    ['modifyOtherKeys', '\x1b[>4;2m', ['\x1b[>4;2m']],
    ['modes that no headless terminal knows', '\x1b[?2031h\x1b[?1007l', ['\x1b[?2031h', '\x1b[?1007l']],
    ['an open link', '\x1b]8;id=1;http://example.org\x07', ['\x1b]8;id=1;http://example.org\x07']],
    ['focus events and bracketed paste', '\x1b[?1004h\x1b[?2004h', ['\x1b[?1004h', '\x1b[?2004h']],
  ])('includes %s', async (_, output, sequences) => {
    const { redraw } = await drawnTwice(output);
    for (const sequence of sequences) expect(redraw).toContain(sequence);
  });

  it.each([
    ['popped key protocols', '\x1b[>1u\x1b[<u'],
    ['a closed link', '\x1b]8;;http://example.org\x07x\x1b]8;;\x07\r \r'],
    ['modes that were reset', '\x1b[?1002h\x1b[?25l\x1b[6 q\x1b[>1u\x1bc'],
    ['synchronised output', '\x1b[?2026h'],
  ])('does not include %s', async (_, output) => {
    const { redraw } = await drawnTwice(output);
    expect(redraw).not.toMatch(/\x1b\[\?|\x1b\[>|\x1b\]8| q/);
  });

  it('closes an open link with the text of the program, without an underline behind it', async () => {
    const { client } = await drawnTwice('\x1b]8;;http://example.org\x07', 'link\x1b]8;;\x07 text');
    expect(client.lines[0]).toMatch(/ text/);
  });

  it('is drawn without resizes when the library fails on them', async () => {
    const terminal = new TrackedTerminal({ rows: 8, cols: 29 }, { headBytes: 64, tailBytes: 4096 });
    const steps = [
      [`\x1b[3;1H${'x'.repeat(29)}\r\n\r\n`, { rows: 5, cols: 10 }],
      [`\x1b[6;1H${'x'.repeat(25)}\r\n\r\n\r\n\r\n\r\n`, { rows: 3, cols: 29 }],
      [`\x1b#8\x1b[1;1H${'x'.repeat(28)}`, { rows: 3, cols: 12 }],
      [`\x1b#8\x1b[3;1H${'x'.repeat(53)}\r\n\r\n`, { rows: 10, cols: 29 }],
    ] as const;
    for (const [output, size] of steps) {
      terminal.write(output);
      terminal.tracker.resize(size);
    }
    terminal.write('\x1b[7;1Hlast line\r\n\r\n\r\n');
    const screen = await terminal.tracker.draw();
    expect(screen).toMatchObject({ exact: false, size: { rows: 10, cols: 29 } });
    expect(screen.text).toContain('last line');
  });

  it('is drawn of retained output after the program has ended', async () => {
    const terminal = tracked();
    terminal.write('last words');
    terminal.log.mark();
    terminal.log.mark();
    terminal.log.shrink();
    expect(await terminal.tracker.draw()).toMatchObject({
      seq: 3,
      text: expect.stringContaining('last words'),
    });
  });

  it('starts from the last drawing, also when that was evicted', async () => {
    const [terminal, everything] = [tracked(), clientTerminal(SIZE)];
    for (let round = 0; round < 60; round++) {
      const output = `\x1b[${(round % 5) + 1};${(round % 9) + 1}H\x1b[3${round % 8}mround ${round} ${'.'.repeat(round)}`;
      terminal.write(output);
      await feed(everything, output);
      if (round % 7 === 0) await terminal.tracker.draw();
    }
    const client = clientTerminal(SIZE);
    await feed(client, (await terminal.tracker.draw()).redraw);
    expect(visibleState(client)).toEqual(visibleState(everything));
  });
});
