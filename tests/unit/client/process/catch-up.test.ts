import { expect, test } from 'vitest';
import { type Call, catchUp } from '../../../../src/client/process/catch-up.ts';
import { order } from './event-order-fixture.ts';

const OPTIONS = { withPosition: false, withTimes: false, allowGaps: true };

/** A server whose process writes one chunk before each read. */
function writingServer(beforeAnswer: (reads: number) => void) {
  const reads: number[] = [];
  const call = (async (_method: string, { afterSeq }: { afterSeq: number }) => {
    reads.push(afterSeq);
    beforeAnswer(reads.length);
    const seqs = Array.from({ length: reads.length - afterSeq }, (_, index) => afterSeq + index + 1);
    const chunks = seqs.map((seq) => ({ seq, stream: 'stdout', chunk: 'eA==' }));
    return { chunks, nextSeq: reads.length + 1, exited: false, exitCode: null, closed: false, failure: null };
  }) as unknown as Call;
  return { call, reads };
}

test('a reader that detaches while the process writes reads no further pages', async () => {
  const { subject, published } = order();
  const { call, reads } = writingServer((count) => {
    if (count === 2) subject.end();
  });
  await catchUp('p', subject, call, OPTIONS);
  expect(reads).toEqual([0, 1]);
  expect(published).toHaveLength(1);
});
