import { expect, test } from 'vitest';
import { OutputLog } from '../../../../src/process/output-log.ts';
import type { ClosedEvent, ExitEvent } from '../../../../src/server/sessions/event-stream.ts';
import { EventStream } from '../../../../src/server/sessions/event-stream.ts';

/** A generator of numbers from 0 to 1 with a seed (mulberry32). */
function randomNumbers(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

/** A process that writes at random to a stream whose connection is saturated at random. Returns what the connection gets. */
function play(seed: number, lossless: boolean, sharing = true) {
  const random = randomNumbers(seed);
  const log = new OutputLog({ headBytes: 0, tailBytes: 8, maxChunks: 5 });
  const sent: { from: number; to: number; text: string }[] = [];
  const source = {
    exit: null as ExitEvent | null,
    end: null as ClosedEvent | null,
    textStream: 'stdout' as const,
    outputAtMs: 0,
    get nextSeq() {
      return log.nextSeq;
    },
    retainedAfter: (afterSeq: number) => log.read(afterSeq, 4).chunks,
  };
  const sink = { saturated: false, sharing };
  const sends = (from: number, to: number, text: string) => {
    sent.push({ from, to, text });
    if (random() < 0.2) sink.saturated = true;
  };
  const stream = new EventStream(
    source,
    sink,
    {
      output: (seq, _name, bytes) => sends(seq, seq, `${bytes}`),
      exited: (seq) => sends(seq, seq, 'exit'),
      closed: (seq) => sends(seq, seq, 'closed'),
      skipped: (from, to) => sends(from, to, 'gap'),
    },
    lossless,
  );
  const write = () => {
    const text = `${log.nextSeq}`.slice(-1).repeat(1 + Math.floor(random() * 4));
    stream.output(
      log.append(random() < 0.5 ? 'stdout' : 'stderr', Buffer.from(text)),
      'stdout',
      Buffer.from(text),
    );
  };
  const drain = () => {
    sink.saturated = false;
    stream.resume();
  };
  const step = () => {
    // The program waits while a lossless connection is saturated.
    if (random() < 0.3 || (lossless && sink.saturated)) drain();
    else write();
  };
  for (let round = 0; round < 40; round++) step();
  source.exit = { seq: log.mark(), exitCode: 0, reason: null, denied: false };
  stream.exited(source.exit);
  for (let round = 0; round < 10; round++) step();
  source.end = { seq: log.mark(), reason: null };
  stream.closed(source.end);
  while (stream.nextSeq < log.nextSeq) drain();
  return { sent, end: source.end.seq, exit: source.exit.seq };
}

test('sends or reports every event once and in order, whatever the connection does', () => {
  let gaps = 0;
  for (let seed = 1; seed <= 500; seed++) {
    const { sent, end, exit } = play(seed, false);
    let next = 1;
    for (const { from, to, text } of sent) {
      expect([seed, from]).toEqual([seed, next]);
      expect(to).toBeGreaterThanOrEqual(from);
      if (text === 'gap') gaps++;
      next = to + 1;
    }
    expect(next).toBe(end + 1);
    expect(sent.filter(({ text }) => text === 'exit')).toEqual([{ from: exit, to: exit, text: 'exit' }]);
    expect(sent.at(-1)).toEqual({ from: end, to: end, text: 'closed' });
  }
  expect(gaps).toBeGreaterThan(100);
});

test('fills the gaps of a client that waits for every sequence number', () => {
  let gaps = 0;
  for (let seed = 1; seed <= 500; seed++) {
    const { sent, end, exit } = play(seed, false, false);
    expect(sent.map(({ from, to }) => [from, to])).toEqual(
      Array.from({ length: end }, (_, index) => [index + 1, index + 1]),
    );
    expect([sent[exit - 1]!.text, sent[end - 1]!.text]).toEqual(['exit', 'closed']);
    let missing: number[] = [];
    for (const { from, text } of sent) {
      const [, first, last] = /\[events (\d+) to (\d+) of this process were skipped/.exec(text) ?? [];
      if (first !== undefined) {
        gaps++;
        expect([Number(first), missing]).toEqual([from, []]);
        missing = Array.from({ length: Number(last) - from }, (_, index) => from + 1 + index);
      } else if (text === '') expect(missing.shift()).toBe(from);
      else expect([text, missing]).toEqual([text, []]);
    }
  }
  expect(gaps).toBeGreaterThan(100);
});

test('leaves nothing out for a driver, whose program waits', () => {
  for (let seed = 1; seed <= 500; seed++) {
    const { sent, end } = play(seed, true);
    expect(sent.filter(({ text }) => text === 'gap')).toEqual([]);
    expect(sent.map(({ from }) => from)).toEqual(Array.from({ length: end }, (_, index) => index + 1));
  }
});

test('sends nothing while it is held, and begins with the requested event', () => {
  const log = new OutputLog({ headBytes: 0, tailBytes: 100, maxChunks: 100 });
  const sent: string[] = [];
  const source = {
    exit: null,
    end: null,
    textStream: 'stdout' as const,
    outputAtMs: 0,
    get nextSeq() {
      return log.nextSeq;
    },
    retainedAfter: (afterSeq: number) => log.read(afterSeq, 4).chunks,
  };
  const stream = new EventStream(
    source,
    { saturated: false, sharing: true },
    { output: (_seq, _name, bytes) => sent.push(`${bytes}`), exited() {}, closed() {}, skipped() {} },
    false,
  );
  const write = (text: string) =>
    stream.output(log.append('stdout', Buffer.from(text)), 'stdout', Buffer.from(text));
  write('a');
  stream.hold(1);
  write('b');
  stream.resume();
  expect(sent).toEqual(['a']);
  stream.begin();
  write('c');
  expect(sent).toEqual(['a', 'a', 'b', 'c']);
});
