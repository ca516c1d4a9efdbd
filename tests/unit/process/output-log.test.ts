import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { CLOSED_PROCESS_BYTES } from '../../../src/process/limits.ts';
import { OutputLog } from '../../../src/process/output-log.ts';
import type { RetentionLimits } from '../../../src/process/retained-stream.ts';
import type { StreamName } from '../../../src/process/spawn/spawner.ts';
import { retainedBytes } from '../../support/retained-memory.ts';

const ROOMY: RetentionLimits = { headBytes: 1_000, tailBytes: 1_000_000, maxChunks: 50_000 };

function logOf(chunks: readonly string[], limits: Partial<RetentionLimits> = {}): OutputLog {
  const log = new OutputLog({ ...ROOMY, ...limits });
  for (const chunk of chunks) log.append('stdout', Buffer.from(chunk));
  return log;
}

const seqs = (log: OutputLog, afterSeq = 0, maxBytes: number | null = null) =>
  log.read(afterSeq, maxBytes).chunks.map(({ seq }) => seq);

describe('read, with three chunks of four bytes followed by two marks', () => {
  const log = logOf(['aaaa', 'bbbb', 'cccc']);
  log.mark();
  log.mark();

  test.each([
    [0, null, [1, 2, 3]],
    [1, null, [2, 3]],
    [3, null, []],
    [4, null, []],
    [99, null, []],
    [2 ** 64, null, []],
    [0, 0, [1]],
    [0, 1, [1]],
    [0, 4, [1]],
    [0, 5, [1]],
    [0, 8, [1, 2]],
    [0, 9, [1, 2]],
    [0, 12, [1, 2, 3]],
    [0, 100, [1, 2, 3]],
    [1, 4, [2]],
    [3, 4, []],
  ])('after %s within %s bytes: %j', (afterSeq, maxBytes, expected) => {
    expect(seqs(log, afterSeq, maxBytes)).toEqual(expected);
    expect(log.hasAfter(afterSeq)).toBe(expected.length > 0);
  });

  test('counts marks in the next sequence number', () => {
    expect(log.nextSeq).toBe(6);
  });
});

describe('read with a small budget, where each chunk costs two more than its bytes', () => {
  const log = logOf(['aaaa', 'bbbb', 'c', 'dddd']);
  const read = (size: number, afterSeq = 0, maxBytes: number | null = null) =>
    log.read(afterSeq, maxBytes, { size, sizeOf: (chunkBytes) => chunkBytes + 2 });

  test.each([
    [21, 0, [1, 2, 3, 4]],
    [20, 0, [1, 2, 3]],
    [15, 0, [1, 2, 3]],
    [14, 0, [1, 2]],
    [11, 0, [1]],
    [0, 0, [1]],
    [-1, 0, [1]],
    [9, 2, [3, 4]],
    [8, 2, [3]],
    [0, 4, []],
  ])('%s after %s: %j', (size, afterSeq, expected) => {
    const { chunks, endsEarly } = read(size, afterSeq);
    expect(chunks.map(({ seq }) => seq)).toEqual(expected);
    expect(endsEarly).toBe(expected.length > 0 && expected.at(-1) !== 4);
  });

  test('applies the smaller of maxBytes and the budget', () => {
    expect(read(20, 0, 8).chunks).toHaveLength(2);
    expect(read(14, 0, 100).chunks).toHaveLength(2);
  });
});

test('keeps the stream, the bytes and the time of a chunk', () => {
  const log = new OutputLog(ROOMY);
  const bytes = Buffer.from([0, 255, 10]);
  expect(log.append('stderr', bytes, 1_000)).toBe(1);
  bytes.fill(7);
  expect(log.read(0, null).chunks).toEqual([
    { seq: 1, stream: 'stderr', bytes: Buffer.from([0, 255, 10]), timeMs: 1_000 },
  ]);
});

describe('eviction', () => {
  const read = (log: OutputLog, afterSeq = 0) =>
    log.read(afterSeq, null).chunks.map(({ seq, bytes }) => `${seq} ${bytes}`);

  test('keeps exactly the last bytes and cuts the chunk at their beginning', () => {
    const log = logOf(['aaaa', 'bbbb', 'cccc'], { headBytes: 0, tailBytes: 10 });
    expect(read(log)).toEqual(['1 aa', '2 bbbb', '3 cccc'].slice(1));
    log.append('stdout', Buffer.from('dddd'));
    expect(read(log)).toEqual(['2 bb', '3 cccc', '4 dddd']);
  });

  test('shows a cut chunk only to a reader who also misses the chunk before it', () => {
    const log = logOf(['aaaa', 'bbbb', 'cccc', 'dddd'], { headBytes: 0, tailBytes: 10 });
    expect(read(log, 0)).toEqual(['2 bb', '3 cccc', '4 dddd']);
    expect(read(log, 1)).toEqual(['3 cccc', '4 dddd']);
    expect(read(log, 2)).toEqual(['3 cccc', '4 dddd']);
  });

  test('keeps as many bytes as allowed: everything until head and tail are full', () => {
    expect(read(logOf(['aaaaa', 'bbbbb'], { headBytes: 2, tailBytes: 8 }))).toEqual(['1 aaaaa', '2 bbbbb']);
    expect(read(logOf(['aaaaa', 'bbbbb', 'c'], { headBytes: 2, tailBytes: 8 }))).toEqual(['2 bbbbb', '3 c']);
  });

  test('keeps as many chunks as allowed, and the bytes of more for a snapshot', () => {
    const log = logOf(Array(53_144).fill('x'));
    expect(seqs(log)).toHaveLength(50_000);
    expect(seqs(log)[0]).toBe(3_145);
    expect(log.snapshot('stdout').omittedBytes).toBe(0);
  });

  test('keeps the end of a chunk that is larger than the tail', () => {
    const log = logOf(['aa', '0123456789'], { headBytes: 0, tailBytes: 4 });
    expect(read(log)).toEqual(['2 6789']);
    expect(read(log, 1)).toEqual([]);
    expect([log.hasAfter(1), log.hasAfter(2)]).toEqual([true, false]);
  });

  test('numbers chunks without any retention', () => {
    const log = logOf(['a', 'b'], { tailBytes: 0, headBytes: 0 });
    expect(seqs(log)).toEqual([]);
    expect(log.nextSeq).toBe(3);
    expect(log.snapshot('stdout')).toEqual({ head: Buffer.alloc(0), tail: Buffer.alloc(0), omittedBytes: 2 });
  });

  test('a flood on one stream evicts nothing of another', () => {
    const log = new OutputLog({ headBytes: 4, tailBytes: 8, maxChunks: 3 });
    log.append('stderr', Buffer.from('error: 1'));
    for (let index = 0; index < 100; index++) log.append('stdout', Buffer.from(`line ${index};`));
    log.append('stderr', Buffer.from('end'));
    expect(read(log)).toEqual(['1 error: 1', '101 line 99;', '102 end']);
    expect(log.snapshot('stderr').omittedBytes).toBe(0);
  });
});

describe('memory', () => {
  const MANY = 1_000_000;
  const LIMITS: RetentionLimits = { headBytes: 65_536, tailBytes: 1_048_576, maxChunks: 50_000 };
  /** Head, tail and 16 bytes per chunk. */
  const BOUND = 65_536 + 1_048_576 + 16 * 50_000;

  test.each([
    ['one-byte chunks', 1, MANY],
    ['large chunks', 65_536, 100],
  ])('%s on two streams stay within the documented bound', (_name, size, count) => {
    const bytes = Buffer.alloc(size);
    const kept = retainedBytes(() => {
      const log = new OutputLog(LIMITS);
      for (let index = 0; index < count; index++) log.append(index % 2 ? 'stdout' : 'stderr', bytes);
      return log;
    });
    expect(kept).toBeLessThan(2 * BOUND + 100_000);
  });

  test.each([
    ['one-byte chunks', 1, 100_000, 20],
    // More logs, because the process itself may allocate some hundred kilobytes meanwhile.
    ['chunks that end just after a growth of the buffers', 70_000, 4, 200],
    ['a short output', 5, 3, 400],
  ])('%s take no more than what is counted once the log is shrunk', (_name, size, count, logs) => {
    const bytes = Buffer.alloc(size);
    let counted = 0;
    const kept = retainedBytes(() =>
      Array.from({ length: logs }, () => {
        const log = new OutputLog(LIMITS);
        for (let index = 0; index < count; index++) log.append(index % 2 ? 'stdout' : 'stderr', bytes);
        log.shrink();
        counted += log.retainedBytes;
        return log;
      }),
    );
    // The objects around the bytes belong to the fixed amount that is counted for each process.
    expect(kept).toBeLessThan(counted + logs * CLOSED_PROCESS_BYTES);
  });

  test('does not allocate a buffer for each byte of a head', () => {
    const byte = Buffer.from('x');
    const kept = retainedBytes(() => {
      const log = new OutputLog({ ...ROOMY, tailBytes: 1, headBytes: 65_536, maxChunks: 1 });
      for (let index = 0; index < 65_536; index++) log.append('stdout', byte);
      return log;
    });
    expect(kept).toBeLessThan(1_000_000);
  });
});

describe('head and tail', () => {
  test.each([
    ['nothing', [], '', '', 0],
    ['less than a head', ['abc'], 'abc', '', 0],
    ['more than a head, nothing evicted', ['abcdef', 'ghi'], 'abcd', 'efghi', 0],
    ['as much as is kept', ['ab', 'cdefghij', 'klmn'], 'abcd', 'efghijklmn', 0],
    ['more than is kept', ['abcd', 'efgh', 'ijkl', 'mnop'], 'abcd', 'ghijklmnop', 2],
  ])('%s', (_name, chunks, head, tail, omittedBytes) => {
    const ends = logOf(chunks, { tailBytes: 10, headBytes: 4 }).snapshot('stdout');
    expect([ends.head.toString(), ends.tail.toString(), ends.omittedBytes]).toEqual([
      head,
      tail,
      omittedBytes,
    ]);
  });

  test.each([
    [12, 'abcd', 'efghijkl', 0],
    [11, 'abcd', 'fghijkl', 1],
    [8, 'abcd', 'ijkl', 4],
    [5, 'ab', 'jkl', 7],
    [1, '', 'l', 11],
    [0, '', '', 12],
  ])('together at most %s bytes', (maxBytes, head, tail, omittedBytes) => {
    const log = logOf(['abc', 'def', 'ghi', 'jkl'], { tailBytes: 12, headBytes: 4 });
    const ends = log.snapshot('stdout', maxBytes);
    expect([ends.head.toString(), ends.tail.toString(), ends.omittedBytes]).toEqual([
      head,
      tail,
      omittedBytes,
    ]);
  });

  test('keeps streams apart', () => {
    const log = new OutputLog({ ...ROOMY, headBytes: 2 });
    for (const stream of ['stdout', 'stderr', 'stdout'] as const) log.append(stream, Buffer.from(stream));
    expect(log.snapshot('stdout').tail.toString()).toBe('doutstdout');
    expect(log.snapshot('stderr').tail.toString()).toBe('derr');
    expect(log.snapshot('pty')).toEqual({ head: Buffer.alloc(0), tail: Buffer.alloc(0), omittedBytes: 0 });
  });

  test('does not change a head that was read earlier', () => {
    const log = logOf(['ab'], { headBytes: 100 });
    const { head } = log.snapshot('stdout');
    for (let index = 0; index < 50; index++) log.append('stdout', Buffer.from('xyz'));
    expect(head.toString()).toBe('ab');
    expect(log.snapshot('stdout').head.toString()).toBe(`ab${'xyz'.repeat(50)}`.slice(0, 100));
  });
});

const STREAMS: readonly StreamName[] = ['stdout', 'stderr'];

/** Everything that was written, in the order of its numbers. */
class Written {
  readonly chunks: { readonly seq: number; readonly stream: StreamName; readonly bytes: Buffer }[] = [];
  nextSeq = 1;

  of(stream: StreamName, from = 0, to = Number.POSITIVE_INFINITY) {
    return this.chunks.filter((chunk) => chunk.stream === stream && chunk.seq > from && chunk.seq <= to);
  }

  bytes(stream: StreamName, from = 0, to = Number.POSITIVE_INFINITY): Buffer {
    return Buffer.concat(this.of(stream, from, to).map(({ bytes }) => bytes));
  }
}

interface Run {
  readonly limits: RetentionLimits;
  readonly log: OutputLog;
  readonly written: Written;
}

/** Writes of random sizes on two streams with marks in between, under random limits. */
const runs = (maxLimit: number, maxSize: number): fc.Arbitrary<Run> => {
  const write = fc.tuple(fc.constantFrom(...STREAMS), fc.integer({ min: 1, max: maxSize }));
  const step = fc.oneof({ weight: 5, arbitrary: write }, { weight: 1, arbitrary: fc.constant(null) });
  const limits = fc.record({
    headBytes: fc.nat(maxLimit),
    tailBytes: fc.nat(maxLimit),
    maxChunks: fc.integer({ min: 1, max: 12 }),
  });
  return fc.tuple(limits, fc.array(step, { maxLength: 60 })).map(([chosen, steps]) => {
    const log = new OutputLog(chosen);
    const written = new Written();
    let content = 0;
    for (const each of steps) {
      const seq = written.nextSeq++;
      if (each === null) {
        expect(log.mark()).toBe(seq);
        continue;
      }
      const [stream, size] = each;
      const bytes = Buffer.from(Array.from({ length: size }, () => content++ % 251));
      expect(log.append(stream, bytes)).toBe(seq);
      written.chunks.push({ seq, stream, bytes });
    }
    return { limits: chosen, log, written };
  });
};

describe.each([
  ['small', 60, 30, 300],
  ['larger than the first ring buffer', 20_000, 5_000, 50],
])('any writes on two streams, %s', (_name, maxLimit, maxSize, numRuns) => {
  const check = (property: (run: Run, afterSeq: number) => void) =>
    fc.assert(fc.property(runs(maxLimit, maxSize), fc.nat(60), property), { numRuns });

  test('a snapshot has the exact head and tail of each stream', () => {
    check(({ limits: { headBytes, tailBytes }, log, written }) => {
      let retained = 0;
      for (const stream of STREAMS) {
        const whole = written.bytes(stream);
        const { head, tail, omittedBytes } = log.snapshot(stream);
        expect(head).toEqual(whole.subarray(0, headBytes));
        expect(tail).toEqual(whole.subarray(Math.max(head.length, whole.length - tailBytes)));
        expect(head.length + omittedBytes + tail.length).toBe(whole.length);
        retained += head.length + tail.length;
      }
      expect(log.retainedBytes).toBe(retained + 24 * log.read(-1, null).chunks.length);
    });
  });

  test('shrinking changes nothing, also for what follows', () => {
    const state = (log: OutputLog, afterSeq: number) => ({
      read: log
        .read(afterSeq, null)
        .chunks.map(({ seq, stream, bytes }) => [seq, stream, bytes.toString('hex')]),
      snapshots: STREAMS.map((stream) => log.snapshot(stream)),
      retainedBytes: log.retainedBytes,
    });
    fc.assert(
      fc.property(runs(maxLimit, maxSize), fc.nat(60), fc.nat(10), ({ limits, written }, afterSeq, every) => {
        const [plain, shrunk] = [new OutputLog(limits), new OutputLog(limits)];
        written.chunks.forEach(({ stream, bytes }, index) => {
          plain.append(stream, bytes);
          shrunk.append(stream, bytes);
          if (index % (every + 1) === 0) shrunk.shrink();
        });
        shrunk.shrink();
        expect(state(shrunk, afterSeq)).toEqual(state(plain, afterSeq));
      }),
      { numRuns },
    );
  });

  test('a read has the exact end of each stream, as much as the limits allow', () => {
    check(({ limits: { headBytes, tailBytes, maxChunks }, log, written }) => {
      const { chunks } = log.read(0, null);
      expect(chunks.map(({ seq }) => seq)).toEqual(chunks.map(({ seq }) => seq).toSorted((a, b) => a - b));
      for (const stream of STREAMS) {
        const whole = written.bytes(stream);
        const read = Buffer.concat(
          chunks.filter((chunk) => chunk.stream === stream).map(({ bytes }) => bytes),
        );
        const lastChunks = Buffer.concat(
          written
            .of(stream)
            .slice(-maxChunks)
            .map(({ bytes }) => bytes),
        );
        const fits = whole.length <= headBytes + tailBytes;
        const expected = Math.min(lastChunks.length, fits ? whole.length : tailBytes);
        // The first chunk of a stream is shown whole or not at all.
        const behindFirst = whole.length - (written.of(stream)[0]?.bytes.length ?? 0);
        const shown = expected < whole.length ? Math.min(expected, behindFirst) : expected;
        expect(read).toEqual(whole.subarray(whole.length - shown));
      }
    });
  });

  test('a reader sees a missing number exactly where bytes are missing', () => {
    check(({ log, written }, afterSeq) => {
      const { chunks } = log.read(afterSeq, null);
      for (const stream of STREAMS) {
        const own = chunks.filter((chunk) => chunk.stream === stream);
        const missing = written
          .of(stream, afterSeq)
          .filter(({ seq }) => own.every((chunk) => chunk.seq !== seq));
        const read = Buffer.concat(own.map(({ bytes }) => bytes));
        const unread = written.bytes(stream, afterSeq);
        // What is read is the end of what the reader does not have, and every number missing is before it.
        expect(read).toEqual(unread.subarray(unread.length - read.length));
        expect(missing.length > 0).toBe(read.length < unread.length);
        expect(missing.every(({ seq }) => seq < (own[0]?.seq ?? Number.POSITIVE_INFINITY))).toBe(true);
        expect(log.hasAfter(afterSeq)).toBe(written.chunks.some(({ seq }) => seq > afterSeq));
      }
    });
  });

  test('the bytes before a number are exact, and known at the end and behind readable chunks', () => {
    check(({ log, written }) => {
      expect(log.bytesBefore(log.nextSeq, 'pty')).toBe(0);
      const { chunks } = log.read(0, null);
      for (const stream of STREAMS) {
        for (let seq = 1; seq <= log.nextSeq; seq++) {
          const bytes = log.bytesBefore(seq, stream);
          const mustKnow =
            seq === log.nextSeq || chunks.some((chunk) => chunk.stream === stream && chunk.seq < seq);
          if (bytes !== null || mustKnow) expect(bytes).toBe(written.bytes(stream, 0, seq - 1).length);
        }
      }
    });
  });

  test('pages of any size show the same as one page', () => {
    fc.assert(
      fc.property(runs(maxLimit, maxSize), fc.nat(2 * maxSize), ({ log }, maxBytes) => {
        const all = log.read(0, null).chunks;
        const [first] = log.read(0, maxBytes).chunks;
        expect(first).toEqual(all[0]);
        for (let index = 0; index < all.length; ) {
          const { chunks, endsEarly } = log.read(index === 0 ? 0 : all[index - 1]!.seq, maxBytes);
          const total = chunks.reduce((sum, { bytes }) => sum + bytes.length, 0);
          expect(chunks.length === 1 || total <= maxBytes).toBe(true);
          // A later page can only hide a cut chunk, whose beginning it cannot show to be missing.
          const rest = all
            .slice(index)
            .filter(({ seq }) => index === 0 || chunks.some((each) => each.seq === seq));
          expect(chunks).toEqual(rest.slice(0, chunks.length));
          expect(endsEarly || index + chunks.length >= all.length - STREAMS.length).toBe(true);
          if (chunks.length === 0) break;
          index = all.findIndex(({ seq }) => seq === chunks.at(-1)!.seq) + 1;
        }
      }),
      { numRuns },
    );
  });
});
