import fc from 'fast-check';
import { expect, test } from 'vitest';
import { OutputLog } from '../../../../src/process/output-log.ts';
import type { ReadPage } from '../../../../src/process/read-page.ts';
import { pageBudget, readableChunkBytes, readResult } from '../../../../src/server/handlers/read-result.ts';

const STATE: Omit<ReadPage, 'chunks' | 'nextSeq'> = {
  exitCode: 255,
  closed: false,
  reason: 'outputLimit',
  denied: false,
  position: { streamBytes: { stdout: 2 ** 53 - 1, stderr: 2 ** 53 - 1, pty: null }, exitSeq: null },
};
const SMALLEST_RESPONSE = 1024;

const logOf = (lengths: readonly number[]) => {
  const log = new OutputLog({ headBytes: 0, tailBytes: 10_000_000, maxChunks: 50_000 });
  for (const length of lengths) log.append('stdout', Buffer.alloc(length, 'x'));
  return log;
};

const lengthOf = (chunks: ReadPage['chunks'], withTimes: boolean) =>
  JSON.stringify(readResult({ ...STATE, chunks, nextSeq: 100_000 }, { withPosition: true, withTimes }))
    .length;

test('a page within the budget fits in JSON and uses most of it', () => {
  fc.assert(
    fc.property(
      fc.array(fc.integer({ min: 1, max: 500 }), { minLength: 1, maxLength: 60 }),
      fc.integer({ min: SMALLEST_RESPONSE, max: 20_000 }),
      fc.boolean(),
      (lengths, maxResultBytes, withTimes) => {
        const { chunks } = logOf(lengths).read(0, null, pageBudget(maxResultBytes, withTimes));
        expect(lengthOf(chunks, withTimes)).toBeLessThanOrEqual(maxResultBytes);
        const next = lengths[chunks.length];
        if (next === undefined) return;
        // The longest state and frame of the next chunk, with its time, and the numbers of the others.
        const unused = 120 + (withTimes ? 30 : 0) + chunks.length * 20;
        expect(lengthOf(chunks, withTimes) + (next / 3) * 4 + unused).toBeGreaterThan(maxResultBytes);
      },
    ),
    { examples: [[[289, 151, 1], 1032, true]] },
  );
});

test.each([SMALLEST_RESPONSE, 4096, 65_536, 1024 ** 3])(
  'the largest chunk fits into a response of %i bytes together with its id',
  (maxResponseBytes) => {
    const length = Math.min(readableChunkBytes(maxResponseBytes), 1_000_000);
    const [chunk] = logOf([length]).read(0, null).chunks;
    const answer = `{"id":"${'x'.repeat(64)}","result":}`.length + lengthOf([chunk!], true);
    expect(length).toBeGreaterThan(0);
    expect(answer).toBeLessThanOrEqual(maxResponseBytes);
  },
);
