import { expect, test } from 'vitest';
import { screenText } from '../../../../src/cli/recordings/screen-text.ts';
import type { CastEvent } from '../../../../src/recording/asciicast.ts';

/** The text of a recording; a size such as `20x5` stands for a resize. */
async function textOf(...texts: string[]): Promise<string> {
  async function* events(): AsyncGenerator<CastEvent> {
    for (const text of texts) yield { atUs: 0, code: /^\d+x\d+$/.test(text) ? 'r' : 'o', text };
  }
  let shown = '';
  for await (const piece of screenText({ rows: 4, cols: 10 }, events())) shown += piece;
  return shown;
}

test.each([
  ['nothing', [''], ''],
  ['colours and titles', ['\x1b[31mred\x1b[0m\x1b]0;title\x07\r\n'], 'red\n'],
  ['a progress bar', ['10%\r50%\r99%\r\n', 'done'], '99%\ndone\n'],
  ['a first line that is empty', ['\r\na\r\n'], '\na\n'],
  ['a line that is wrapped', ['0123456789abcdef\r\nx'], '0123456789abcdef\nx\n'],
  ['an editor that has ended', ['a\r\n\x1b[?1049hEDIT\x1b[?1049l', 'b'], 'a\nb\n'],
  ['an editor that has not ended', ['\x1b[?1049h\x1b[HEDIT'], 'EDIT\n'],
  ['a resize', ['a\r\n', '20x5', '0123456789abcdef'], 'a\n0123456789abcdef\n'],
])('%s', async (_, texts, expected) => {
  expect(await textOf(...texts)).toBe(expected);
});

test('refuses a terminal that takes too much memory, also after a resize', async () => {
  const limit =
    /65535x65535 characters, and text is taken from at most 250000 of them; export it without --txt/;
  await expect(textOf('a', '65535x65535')).rejects.toThrow(limit);
  const large = screenText({ rows: 65_535, cols: 65_535 }, (async function* () {})());
  await expect(large.next()).rejects.toThrow(limit);
});

test('keeps the lines of a wide terminal', async () => {
  const lines = Array.from({ length: 200 }, (_, index) => `line ${index}`);
  expect(await textOf('60000x4', `${lines.join('\r\n')}\r\n`, '10x4', 'end')).toBe(
    `${lines.join('\n')}\nend\n`,
  );
});

test('keeps all lines that scroll out, in pieces of any size', async () => {
  const lines = Array.from({ length: 30_000 }, (_, index) => `line ${index}`);
  expect(await textOf(`${lines.join('\r\n')}\r\n`)).toBe(`${lines.join('\n')}\n`);
  const few = lines.slice(0, 100);
  expect(await textOf(...few.map((line) => `${line}\r\n`))).toBe(`${few.join('\n')}\n`);
});
