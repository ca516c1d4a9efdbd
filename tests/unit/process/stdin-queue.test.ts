import { describe, expect, test, vi } from 'vitest';
import {
  MAX_RECENT_WRITE_IDS,
  STDIN_ACCEPTED_CHUNKS,
  STDIN_QUEUE_MAX_BYTES,
  STDIN_QUEUE_MAX_CHUNKS,
} from '../../../src/process/limits.ts';
import { StdinQueue, type WriteStatus } from '../../../src/process/stdin-queue.ts';
import { retainedBytes } from '../../support/retained-memory.ts';
import { FakeSink } from './fake-child.ts';

function createQueue(isTerminal = false) {
  const sink = new FakeSink();
  const queue = new StdinQueue(sink, isTerminal);
  const onWithheld = vi.fn();
  const write = (text: string, writeId: string | null = null) =>
    queue.write(Buffer.from(text), writeId, onWithheld);
  return { sink, queue, write, onWithheld };
}

const settled = () => new Promise(setImmediate);

/** Whether each ack has arrived by now. */
async function arrived(
  acknowledgements: readonly (Promise<WriteStatus> | WriteStatus)[],
): Promise<boolean[]> {
  const flags = acknowledgements.map(() => false);
  acknowledgements.forEach((each, index) => {
    void Promise.resolve(each).then(() => {
      flags[index] = true;
    });
  });
  await settled();
  return flags;
}

test('writes in call order', () => {
  const { sink, write } = createQueue();
  expect(['a', 'b', 'c'].map((text) => write(text))).toEqual(['accepted', 'accepted', 'accepted']);
  sink.read(3);
  expect(sink.written).toEqual(['a', 'b', 'c']);
});

test('accepts an empty write without effect, even while acks are withheld', () => {
  const { sink, queue, write, onWithheld } = createQueue();
  expect(write('')).toBe('accepted');
  expect(sink.waiting).toBe(0);
  for (let index = 0; index <= STDIN_ACCEPTED_CHUNKS; index++) void write('x');
  onWithheld.mockClear();
  expect(write('', 'id')).toBe('accepted');
  expect(onWithheld).not.toHaveBeenCalled();
  expect(queue.end()).toBe(true);
});

describe('a program that does not read', () => {
  test('withholds acks beyond a number, and sends them one by one as it reads', async () => {
    const { sink, write, onWithheld } = createQueue();
    for (let index = 0; index < STDIN_ACCEPTED_CHUNKS; index++) expect(write('x')).toBe('accepted');
    expect(onWithheld).not.toHaveBeenCalled();
    const withheld = [write('1'), write('2'), write('3')];
    expect(onWithheld).toHaveBeenCalledTimes(3);
    expect(await arrived(withheld)).toEqual([false, false, false]);
    sink.read(2);
    expect(await arrived(withheld)).toEqual([false, false, false]);
    sink.read(1);
    expect(await arrived(withheld)).toEqual([true, false, false]);
    sink.read(STDIN_ACCEPTED_CHUNKS);
    expect(await arrived(withheld)).toEqual([true, true, true]);
    expect(await Promise.all(withheld)).toEqual(['accepted', 'accepted', 'accepted']);
  });

  test('rejects too many chunks, and accepts more after a read', () => {
    const { sink, write } = createQueue();
    for (let index = 0; index < STDIN_QUEUE_MAX_CHUNKS; index++) void write('x');
    expect(() => write('y', 'refused')).toThrow(expect.objectContaining({ code: 'stdinFull' }));
    sink.read(1);
    void write('z', 'refused');
    sink.read(STDIN_QUEUE_MAX_CHUNKS);
    expect(sink.written).toHaveLength(STDIN_QUEUE_MAX_CHUNKS + 1);
    expect(sink.written).not.toContain('y');
    expect(sink.written.at(-1)).toBe('z');
  });

  test('rejects too many bytes', () => {
    const { queue, write } = createQueue();
    const half = Buffer.alloc(STDIN_QUEUE_MAX_BYTES / 2);
    void queue.write(half, null, vi.fn());
    void queue.write(half, null, vi.fn());
    expect(() => write('x')).toThrow(/stdin is full: 67108864 bytes/);
  });

  test.each(['close', 'abandon'] as const)('%s releases all withheld acks', async (how) => {
    const { sink, queue, write } = createQueue();
    for (let index = 0; index < STDIN_ACCEPTED_CHUNKS; index++) void write('x');
    const withheld = [write('1'), write('2')];
    queue[how]();
    expect(await Promise.all(withheld)).toEqual(['accepted', 'accepted']);
    expect(sink.destroyed).toBe(true);
  });
});

describe('write ids', () => {
  test('does not write an accepted id again, whatever the bytes', () => {
    const { sink, write } = createQueue();
    expect([write('a', '1'), write('a', '1'), write('b', '1'), write('c', '2')]).toEqual(
      Array(4).fill('accepted'),
    );
    sink.read(10);
    expect(sink.written).toEqual(['a', 'c']);
  });

  test('remembers the latest ids and evicts the oldest first', () => {
    const { sink, write } = createQueue();
    const step = (text: string, id: string) => {
      void write(text, id);
      sink.read(1);
    };
    step('first', 'first');
    for (let index = 1; index < MAX_RECENT_WRITE_IDS; index++) step('x', `id ${index}`);
    step('again', 'first');
    expect(sink.written).not.toContain('again');
    step('x', 'one more');
    step('again', 'first');
    expect(sink.written.filter((text) => text === 'again')).toHaveLength(1);
  });

  test('does not refresh an id that is repeated', () => {
    const { sink, write } = createQueue();
    void write('first', 'first');
    for (let index = 1; index < MAX_RECENT_WRITE_IDS; index++) {
      void write('', `id ${index}`);
      void write('first', 'first');
    }
    void write('', 'one more');
    void write('again', 'first');
    sink.read(10);
    expect(sink.written).toEqual(['first', 'again']);
  });

  test('distinguishes long ids by all of their characters at little cost', () => {
    const { sink, write } = createQueue();
    const long = 'x'.repeat(60_000);
    void write('a', `${long}1`);
    void write('b', `${long}2`);
    void write('c', `${long}1`);
    sink.read(10);
    expect(sink.written).toEqual(['a', 'b']);
    const kept = retainedBytes(() => {
      for (let index = 0; index < 1_000; index++) void write('', `${long}${index}`);
      return sink;
    });
    expect(kept).toBeLessThan(10_000_000);
  });

  test('does not remember the id of a rejected write', () => {
    const { queue, write } = createQueue();
    void queue.write(Buffer.alloc(STDIN_QUEUE_MAX_BYTES), null, vi.fn());
    expect(() => write('x', 'id')).toThrow('stdin is full');
    expect(() => write('x', 'id')).toThrow('stdin is full');
  });
});

describe('end', () => {
  test('closes a pipe once after the queued writes; later writes return stdinClosed', () => {
    const { sink, queue, write } = createQueue();
    void write('a', 'id');
    expect([queue.end(), queue.end()]).toEqual([true, false]);
    expect(sink.ended).toBe(true);
    expect(write('b')).toBe('stdinClosed');
    expect(write('b', 'id')).toBe('accepted');
  });

  test('queues the end-of-file character of a terminal, which stays open', () => {
    const { sink, queue, write } = createQueue(true);
    void write('a');
    expect([queue.end(), queue.end()]).toEqual([true, true]);
    expect(write('b')).toBe('accepted');
    sink.read(10);
    expect(sink.written).toEqual(['a', '\u0004', '\u0004', 'b']);
    expect(sink.ended).toBe(false);
  });

  test('rejects writes after a kill, but accepts a repeated id', () => {
    const { queue, write } = createQueue();
    void write('a', 'known');
    queue.abandon();
    expect(() => write('b', 'new')).toThrow(expect.objectContaining({ code: 'stdinGone' }));
    expect(() => write('', null)).toThrow(expect.objectContaining({ code: 'stdinGone' }));
    expect(write('b', 'known')).toBe('accepted');
    expect(queue.end()).toBe(false);
  });

  test('accepts and drops any number of writes after an exit', async () => {
    const { sink, queue, write } = createQueue();
    queue.close();
    for (let round = 0; round < 10; round++) {
      for (let index = 0; index < 1_000; index++) void write('x');
      await settled();
    }
    expect(write('x')).toBe('accepted');
    expect(sink.written).toEqual([]);
  });
});

describe('close', () => {
  /** Ids that no other queue has: engines may keep equal texts once. */
  const fill = ({ write }: ReturnType<typeof createQueue>, queue = 0) => {
    for (let index = 1; index < MAX_RECENT_WRITE_IDS; index++) {
      void write('', `${queue}.${index}`.padStart(127, 'x'));
    }
    void write('', REPEATED);
  };
  const REPEATED = '1'.padStart(127, 'x');

  test('frees the write ids where every write is accepted anyway, and keeps no further ones', () => {
    const fixture = createQueue();
    const { queue, write } = fixture;
    fill(fixture);
    queue.close();
    expect(queue.retainedBytes).toBe(0);
    fill(fixture);
    expect([write('x', REPEATED), write('x', 'new')]).toEqual(['accepted', 'accepted']);
    expect(queue.retainedBytes).toBe(0);
  });

  test.each(['end', 'abandon'] as const)('keeps the write ids after %s, and counts their memory', (how) => {
    const fixtures = Array.from({ length: 20 }, () => createQueue());
    let counted = 0;
    const kept = retainedBytes(() => {
      for (const [index, fixture] of fixtures.entries()) {
        fill(fixture, index);
        fixture.queue[how]();
        fixture.queue.close();
        counted += fixture.queue.retainedBytes;
      }
      return fixtures;
    });
    expect(counted).toBeGreaterThan(kept * 0.9);
    expect(counted).toBeLessThan(kept * 1.5);
    for (const { write } of fixtures) expect(write('x', REPEATED)).toBe('accepted');
  });
});
