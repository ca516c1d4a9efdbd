import { expect, test } from 'vitest';
import { readRecording } from '../../../console/src/views/recordings/recordings.ts';

const HEADER = '{"version":3,"term":{"cols":80,"rows":24}}\n';
const EVENT = '[0.1, "o", "text"]\n';

/** A recording in blocks of ten bytes. */
async function* blocksOf(text: string): AsyncGenerator<Uint8Array> {
  const bytes = Buffer.from(text);
  for (let at = 0; at < bytes.length; at += 10) yield bytes.subarray(at, at + 10);
}

test('a recording that the player can hold is complete', async () => {
  const text = HEADER + EVENT.repeat(3);
  expect(await readRecording(blocksOf(text), text.length)).toEqual({ text, isCut: false });
});

test('a longer recording is cut after a complete line, which is reported', async () => {
  const text = HEADER + EVENT.repeat(3);
  const most = HEADER + EVENT.repeat(2);
  expect(await readRecording(blocksOf(text), text.length - 1)).toEqual({ text: most, isCut: true });
});

test('a recording of a terminal that is too large to draw is refused', async () => {
  const text = `${HEADER}[0.1, "r", "65535x65535"]\n`;
  await expect(readRecording(blocksOf(text))).rejects.toThrow('65535x65535 is too large to show');
});
