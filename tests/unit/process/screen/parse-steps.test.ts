import { describe, expect, it } from 'vitest';
import { drawScreen } from '../../../../src/process/screen/headless-terminal.ts';
import { PARSE_STEP_BYTES } from '../../../../src/process/screen/limits.ts';
import { endOfStep } from '../../../../src/process/screen/parse-steps.ts';

const SIZE = { rows: 50, cols: 200 };
const draw = (output: string) => drawScreen({ size: SIZE, input: [], exact: true }, [Buffer.from(output)]);

describe('hostile output of a terminal', () => {
  it.each(['S', 'T', 'L', 'M', 'I', 'Z', 'b'])(
    'that repeats the sequence CSI %s two thousand million times is not drawn',
    async (final) => {
      const screen = await draw(`text\x1b[2147483647${final}`);
      expect(screen).toMatchObject({ text: expect.stringContaining('text'), exact: false });
    },
  );

  it('leaves the screen exact once the program has drawn it again', async () => {
    const screen = await draw('text\x1b[2147483647S\x1b[H\x1b[2Jagain');
    expect(screen).toMatchObject({ text: expect.stringMatching(/^again/), exact: true });
  });

  it('scrolls by as many lines as the screen has', async () => {
    const screen = await draw('text\x1b[50S');
    expect(screen).toMatchObject({ text: '\n'.repeat(49), exact: true });
  });

  it('leaves turns of the event loop to others while it clears the screen again and again', async () => {
    let turns = 0;
    let drawing = true;
    const count = () => {
      turns++;
      if (drawing) setImmediate(count);
    };
    setImmediate(count);
    await draw('\x1bc'.repeat(4096));
    drawing = false;
    expect(turns).toBeGreaterThan(10);
  });
});

describe('a step of parsing', () => {
  it('has few sequences, and one at least', () => {
    const output = Buffer.from('\x1bc'.repeat(100));
    expect(endOfStep(output, 0, SIZE)).toBe(100);
    expect(endOfStep(output, 10, { rows: 500, cols: 500 })).toBe(14);
    expect(endOfStep(output, 10, { rows: 2_000, cols: 2_000 })).toBe(12);
  });

  it('counts control characters that stand for a sequence', () => {
    expect(endOfStep(Buffer.from('\u009b2J'.repeat(100)), 0, SIZE)).toBe(200);
  });

  it('is limited in bytes, and ends with the output', () => {
    expect(endOfStep(Buffer.alloc(5_000), 1, SIZE)).toBe(1 + PARSE_STEP_BYTES);
    expect(endOfStep(Buffer.from('text'), 1, SIZE)).toBe(4);
  });
});
