import { Writable } from 'node:stream';
import { expect, test } from 'vitest';
import { logStream, whenWritten } from '../../../src/observability/log-stream.ts';

/** A stream whose reader takes one write each time that `take` is called. */
function slowReader() {
  const texts: string[] = [];
  const waiting: (() => void)[] = [];
  const stream = new Writable({
    highWaterMark: 10,
    decodeStrings: false,
    write: (chunk: string, _encoding, done) => {
      waiting.push(() => {
        texts.push(chunk);
        done();
      });
    },
  });
  const takeAll = async () => {
    for (let take = waiting.shift(); take !== undefined; take = waiting.shift()) {
      take();
      await new Promise(setImmediate);
    }
  };
  return { stream, texts, takeAll };
}

test('queues at most the limit for a slow reader, and then says how many records it left out', async () => {
  const { stream, texts, takeAll } = slowReader();
  const write = logStream(stream, 100);
  for (let count = 0; count < 1_000; count += 1) write(`record ${String(count).padStart(2, '0')}\n`);
  expect(stream.writableLength).toBe(100);
  await takeAll();
  expect(texts.slice(0, 10)).toEqual(Array.from({ length: 10 }, (_, index) => `record 0${index}\n`));
  expect(texts.slice(10).map((line) => JSON.parse(line))).toEqual([
    {
      time: expect.any(String),
      level: 'warn',
      message: 'log records were lost: the reader of the log is slow',
      omitted: 990,
    },
  ]);
  write('later\n');
  await takeAll();
  expect(texts.slice(11)).toEqual(['later\n']);
});

test('waits until the reader has taken everything', async () => {
  const { stream, texts, takeAll } = slowReader();
  stream.write('a');
  stream.write('b');
  const written = whenWritten(stream, 60_000).then(() => texts.join(''));
  await takeAll();
  expect(await written).toBe('ab');
});

test('waits no longer than the time limit', async () => {
  const { stream } = slowReader();
  stream.write('a');
  await whenWritten(stream, 1);
  expect(stream.writableLength).toBe(1);
});
