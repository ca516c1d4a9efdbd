import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { OutputLog, type RetentionLimits } from '../../../src/process/output-log.ts';
import type { StreamName } from '../../../src/process/spawn/spawner.ts';
import { retainedBytes } from '../../support/retained-memory.ts';

const ROOMY: RetentionLimits = { maxBytes: 1_000_000, maxChunks: 50_000, headBytes: 1_000 };

function logOf(chunks: readonly string[], limits: Partial<RetentionLimits> = {}): OutputLog {
  const log = new OutputLog({ ...ROOMY, ...limits });
  for (const chunk of chunks) log.append('stdout', Buffer.from(chunk));
  return log;
}

const seqs = (log: OutputLog, afterSeq = 0, maxBytes: number | null = null) =>
  log.read(afterSeq, maxBytes).map(({ seq }) => seq);

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
    log.read(afterSeq, maxBytes, { size, sizeOf: (chunkBytes) => chunkBytes + 2 }).map(({ seq }) => seq);

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
    expect(read(size, afterSeq)).toEqual(expected);
  });

  test('applies the smaller of maxBytes and the budget', () => {
    expect(read(20, 0, 8)).toEqual([1, 2]);
    expect(read(14, 0, 100)).toEqual([1, 2]);
  });
});

test('keeps the stream and the bytes of a chunk', () => {
  const log = new OutputLog(ROOMY);
  const bytes = Buffer.from([0, 255, 10]);
  expect(log.append('stderr', bytes)).toBe(1);
  bytes.fill(7);
  expect(log.read(0, null)).toEqual([{ seq: 1, stream: 'stderr', bytes: Buffer.from([0, 255, 10]) }]);
});

describe('eviction', () => {
  test('evicts the oldest whole chunks', () => {
    const log = logOf(['aaaa', 'bbbb', 'cccc'], { maxBytes: 10 });
    expect(seqs(log)).toEqual([2, 3]);
    log.append('stdout', Buffer.from('dddddddd'));
    expect(seqs(log)).toEqual([4]);
  });

  test('keeps as many bytes as allowed', () => {
    expect(seqs(logOf(['aaaaa', 'bbbbb'], { maxBytes: 10 }))).toEqual([1, 2]);
  });

  test('keeps as many chunks as allowed', () => {
    const log = logOf(Array(53_144).fill('x'));
    expect(seqs(log)).toHaveLength(50_000);
    expect(seqs(log)[0]).toBe(3_145);
  });

  test('numbers a chunk beyond the limit without keeping it', () => {
    const log = logOf(['aa', 'xxxxxxxxxxx', 'bb'], { maxBytes: 10 });
    expect(seqs(log)).toEqual([3]);
    expect(log.nextSeq).toBe(4);
    expect(log.snapshot('stdout')).toMatchObject({ omittedBytes: 0 });
  });

  test('numbers chunks without any retention', () => {
    const log = logOf(['a', 'b'], { maxBytes: 0, headBytes: 0 });
    expect(seqs(log)).toEqual([]);
    expect(log.nextSeq).toBe(3);
    expect(log.snapshot('stdout')).toEqual({ head: Buffer.alloc(0), tail: Buffer.alloc(0), omittedBytes: 2 });
  });
});

describe('head and tail', () => {
  test.each([
    ['nothing', [], '', '', 0],
    ['less than a head', ['abc'], 'abc', '', 0],
    ['more than a head, nothing evicted', ['abcdef', 'ghi'], 'abcd', 'efghi', 0],
    ['a tail that begins where the head ends', ['abcd', 'efgh', 'ijkl', 'mnop'], 'abcd', 'ijklmnop', 4],
    ['a tail that overlaps the head', ['ab', 'cdefghij'], 'abcd', 'efghij', 0],
  ])('%s', (_name, chunks, head, tail, omittedBytes) => {
    const ends = logOf(chunks, { maxBytes: 10, headBytes: 4 }).snapshot('stdout');
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
    const log = logOf(['abc', 'def', 'ghi', 'jkl'], { maxBytes: 12, headBytes: 4 });
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

  test('does not allocate a buffer for each byte of a head', () => {
    const byte = Buffer.from('x');
    const kept = retainedBytes(() => {
      const log = new OutputLog({ ...ROOMY, maxBytes: 1, headBytes: 65_536 });
      for (let index = 0; index < 65_536; index++) log.append('stdout', byte);
      return log;
    });
    expect(kept).toBeLessThan(1_000_000);
  });
});

/** A slow model of the log. */
class Model {
  #chunks: { seq: number; stream: StreamName; bytes: Buffer }[] = [];
  readonly #limits: RetentionLimits;
  readonly #all = new Map<StreamName, Buffer>();
  nextSeq = 1;

  constructor(limits: RetentionLimits) {
    this.#limits = limits;
  }

  append(stream: StreamName, bytes: Buffer): void {
    this.#all.set(stream, Buffer.concat([this.#whole(stream), bytes]));
    this.#chunks.push({ seq: this.nextSeq++, stream, bytes });
    const total = () => this.#chunks.reduce((sum, chunk) => sum + chunk.bytes.length, 0);
    while (total() > this.#limits.maxBytes || this.#chunks.length > this.#limits.maxChunks)
      this.#chunks.shift();
  }

  read(afterSeq: number, maxBytes: number | null) {
    const candidates = this.#chunks.filter(({ seq }) => seq > afterSeq);
    if (maxBytes === null) return candidates;
    let total = 0;
    const end = candidates.findIndex(({ bytes }, index) => {
      total += bytes.length;
      return index > 0 && total > maxBytes;
    });
    return end < 0 ? candidates : candidates.slice(0, end);
  }

  snapshot(stream: StreamName) {
    const whole = this.#whole(stream);
    const kept = this.#chunks.filter((chunk) => chunk.stream === stream).map(({ bytes }) => bytes);
    const keptFrom = whole.length - Buffer.concat(kept).length;
    const head = whole.subarray(0, this.#limits.headBytes);
    const tailFrom = Math.max(keptFrom, head.length);
    return { head, tail: whole.subarray(tailFrom), omittedBytes: tailFrom - head.length };
  }

  #whole(stream: StreamName): Buffer {
    return this.#all.get(stream) ?? Buffer.alloc(0);
  }
}

test('behaves like the model for any input and small limits', () => {
  const streams = fc.constantFrom<StreamName>('stdout', 'stderr');
  const step = fc.oneof(
    { weight: 5, arbitrary: fc.tuple(streams, fc.integer({ min: 1, max: 30 })) },
    { weight: 1, arbitrary: fc.constant(null) },
  );
  const limits = fc.record({
    maxBytes: fc.integer({ min: 0, max: 60 }),
    maxChunks: fc.integer({ min: 1, max: 8 }),
    headBytes: fc.integer({ min: 0, max: 20 }),
  });
  fc.assert(
    fc.property(
      limits,
      fc.array(step, { maxLength: 60 }),
      fc.nat(60),
      fc.nat(40),
      (chosen, steps, after, budget) => {
        const log = new OutputLog(chosen);
        const model = new Model(chosen);
        let content = 0;
        for (const each of steps) {
          if (each === null) {
            expect(log.mark()).toBe(model.nextSeq++);
          } else {
            const bytes = Buffer.from(Array.from({ length: each[1] }, () => content++ % 251));
            log.append(each[0], bytes);
            model.append(each[0], bytes);
          }
        }
        expect(log.nextSeq).toBe(model.nextSeq);
        expect(log.read(0, null)).toEqual(model.read(0, null));
        expect(log.read(after, budget)).toEqual(model.read(after, budget));
        for (const stream of ['stdout', 'stderr'] as const)
          expect(log.snapshot(stream)).toEqual(model.snapshot(stream));
      },
    ),
    { numRuns: 500 },
  );
});

test('wraps and grows the ring buffer without mixing chunks', () => {
  fc.assert(
    fc.property(fc.array(fc.integer({ min: 1, max: 5_000 }), { minLength: 5, maxLength: 60 }), (sizes) => {
      const limits = { maxBytes: 20_000, maxChunks: 1_000, headBytes: 0 };
      const log = new OutputLog(limits);
      const model = new Model(limits);
      sizes.forEach((size, index) => {
        const bytes = Buffer.alloc(size, index);
        log.append('pty', bytes);
        model.append('pty', bytes);
        expect(seqs(log)).toEqual(model.read(0, null).map(({ seq }) => seq));
      });
      const expected = model.read(0, null);
      expect(log.read(0, null).every(({ bytes }, index) => bytes.equals(expected[index]!.bytes))).toBe(true);
    }),
    { numRuns: 60 },
  );
});
