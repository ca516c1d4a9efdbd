import { describe, expect, it } from 'vitest';
import { drawScreen } from '../../../../src/process/screen/headless-terminal.ts';

const size = { rows: 50, cols: 200 };
const draw = (output: string) => drawScreen({ size, input: [], exact: true }, [Buffer.from(output)]);

describe('the screen of a program', () => {
  it.each(['S', 'T', 'L', 'M', 'I', 'Z', 'b'])(
    'misses the sequence CSI %s with two thousand million repetitions',
    async (final) => {
      const screen = await draw(`text\x1b[2147483647${final}`);
      expect(screen).toMatchObject({ text: expect.stringContaining('text'), exact: false });
    },
  );

  it('is exact again once the program has drawn it again', async () => {
    const screen = await draw('text\x1b[2147483647S\x1b[H\x1b[2Jagain');
    expect(screen).toMatchObject({ text: expect.stringMatching(/^again/), exact: true });
  });

  it('scrolls by as many lines as it has', async () => {
    expect(await draw('text\x1b[50S')).toMatchObject({ text: '\n'.repeat(49), exact: true });
  });
});
