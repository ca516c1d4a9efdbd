import { describe, expect, it } from 'vitest';
import { OutputLog } from '../../../src/process/output-log.ts';
import { EVICTION_LIMITS } from '../../../src/process/screen/evicted-screen.ts';
import { FoldBudget } from '../../../src/process/screen/fold-budget.ts';
import { ScreenTracker } from '../../../src/process/screen/screen-tracker.ts';
import { DrawingTimeoutError, ScreenThread } from '../../../src/process/screen-thread.ts';

const START = { size: { rows: 200, cols: 500 }, input: [], exact: true };
const OWNER = {};
const drawing = (output: string | Buffer) => () => ({ start: START, inputs: [Buffer.from(output)] });
/** Clears a hundred thousand cells for every four bytes. */
const ENDLESS = Buffer.from('\x1b[2J'.repeat(100_000));

describe('the thread that draws screens', () => {
  it('draws screens in the order of the requests', async () => {
    const thread = new ScreenThread();
    const drawn = await Promise.all(['one', 'two', 'three'].map((text) => thread.draw(OWNER, drawing(text))));
    expect(drawn.map(({ text }) => text.trim())).toEqual(['one', 'two', 'three']);
    expect(Buffer.isBuffer(drawn[0]!.redraw)).toBe(true);
  });

  it('gives up a screen that takes too long, and draws the next one', async () => {
    const thread = new ScreenThread(100);
    await expect(thread.draw(OWNER, drawing(ENDLESS))).rejects.toThrow(DrawingTimeoutError);
    const patient = new ScreenThread();
    const [first, second] = [patient.draw(OWNER, drawing(ENDLESS)), patient.draw(OWNER, drawing('next'))];
    await expect(first).rejects.toThrow(DrawingTimeoutError);
    expect((await second).text.trim()).toBe('next');
  });

  it('lets owners take turns', async () => {
    const thread = new ScreenThread();
    const [first, second] = [{}, {}];
    const drawn: string[] = [];
    const draw = async (owner: object, text: string) => {
      drawn.push((await thread.draw(owner, drawing(text))).text.trim());
    };
    await Promise.all([
      ...['a', 'b', 'c'].map((text) => draw(first, text)),
      ...['x', 'y'].map((text) => draw(second, text)),
    ]);
    expect(drawn).toEqual(['a', 'b', 'x', 'c', 'y']);
  });

  it('refuses a terminal that is too large', async () => {
    const thread = new ScreenThread();
    const size = { rows: 65_535, cols: 65_535 };
    for (const large of [
      { start: { ...START, size }, inputs: [] },
      { start: START, inputs: [size] },
    ]) {
      await expect(thread.draw(OWNER, () => large)).rejects.toThrow(/at most 250000 characters/);
    }
  });

  it('has a limited queue, of which one owner cannot take everything', async () => {
    const thread = new ScreenThread(undefined, 8);
    const [first, second] = [{}, {}];
    const waiting = Array.from({ length: 6 }, (_, index) => thread.draw(first, drawing(`a${index}`)));
    await expect(thread.draw(first, drawing('more'))).rejects.toThrow(
      expect.objectContaining({
        code: 'tooManyDrawings',
        message: '6 screens of this session wait to be drawn, its share at the moment; try again later',
      }),
    );
    expect((await thread.draw(second, drawing('b'))).text.trim()).toBe('b');
    expect((await Promise.all(waiting)).map(({ text }) => text.trim())).toEqual(
      waiting.map((_, index) => `a${index}`),
    );
    expect((await thread.draw(first, drawing('again'))).text.trim()).toBe('again');
  });

  it('does not draw for a caller that is gone', async () => {
    const thread = new ScreenThread();
    const caller = new AbortController();
    const gone = new Error('gone');
    const drawn: string[] = [];
    const draw = (text: string, signal?: AbortSignal) =>
      thread.draw(
        OWNER,
        () => {
          drawn.push(text);
          return drawing(text)();
        },
        signal,
      );
    const drawings = [draw('one'), draw('two', caller.signal), draw('three')];
    caller.abort(gone);
    await expect(drawings[1]).rejects.toBe(gone);
    await Promise.all([drawings[0], drawings[2]]);
    await expect(draw('four', caller.signal)).rejects.toBe(gone);
    expect(drawn).toEqual(['one', 'three']);
  });
});

it('keeps the modes of output that takes too long to draw, and continues from there', async () => {
  const log: OutputLog = new OutputLog({ headBytes: 1024, tailBytes: 1 << 20, maxChunks: 1_000 }, (bytes) =>
    tracker.evict(bytes),
  );
  const output = {
    get lastSeq() {
      return log.nextSeq - 1;
    },
    get totalBytes() {
      return log.totalBytes;
    },
    bytesFrom: (offset: number) => log.bytesFrom('pty', offset),
  };
  // On a busy machine the thread takes a part of this to start.
  const thread = new ScreenThread(2_000);
  const tracker: ScreenTracker = new ScreenTracker(
    START.size,
    output,
    (...drawing) => thread.draw(OWNER, ...drawing),
    EVICTION_LIMITS,
    new FoldBudget(),
  );
  log.append('pty', Buffer.from('\x1b[?1049h\x1b[?2004h'));
  for (let from = 0; from < ENDLESS.length; from += 50_000) {
    log.append('pty', ENDLESS.subarray(from, from + 50_000));
  }
  const screen = await tracker.draw();
  expect(screen).toMatchObject({ exact: false, alternate: true });
  expect(screen.redraw.toString()).toContain('\x1b[?2004h');
  log.append('pty', Buffer.from('\x1b[2J\x1b[Hnew'));
  const next = await tracker.draw();
  expect(next).toMatchObject({ exact: true, alternate: true });
  expect(next.text.trim()).toBe('new');
});
