import { setMaxListeners } from 'node:events';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { MAX_TIMER_MS, OUTPUT_AFTER_KILL_MS, OUTPUT_READ_BYTES } from '../../../src/process/limits.ts';
import { ManagedProcess } from '../../../src/process/managed-process.ts';
import type { ReadRequest } from '../../../src/process/read-page.ts';
import type { RetentionLimits } from '../../../src/process/retained-stream.ts';
import { FakeChild } from './fake-child.ts';

const SIGTERM = 15;
const RETENTION: RetentionLimits = { headBytes: 100, tailBytes: 1_000_000, maxChunks: 1_000 };
const FOREVER = new AbortController().signal;
setMaxListeners(0, FOREVER);

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
});

afterEach(() => {
  expect(vi.getTimerCount()).toBe(0);
  vi.useRealTimers();
});

function start(child = new FakeChild(), options: { retention?: RetentionLimits; paused?: boolean } = {}) {
  const events: string[] = [];
  const process = new ManagedProcess(child, options.retention ?? RETENTION, {
    output: (seq, stream, bytes) => events.push(`${seq} ${stream} ${bytes}`),
    exited: (seq, exitCode) => events.push(`${seq} exited ${exitCode}`),
    closed: (seq) => events.push(`${seq} closed`),
  });
  process.begin(options.paused ?? false);
  const read = (request: Partial<ReadRequest> = {}, signal = FOREVER) =>
    process.read({ afterSeq: 0, maxBytes: null, waitMs: 0, ...request }, signal, () => undefined);
  return { child, process, events, read };
}

const settled = () => new Promise(setImmediate);

async function isPending(promise: Promise<unknown>): Promise<boolean> {
  return Promise.race([promise.then(() => false), settled().then(() => true)]);
}

describe('exited and closed', () => {
  test('reports output, exit, then the end of the streams', () => {
    const { child, process, events } = start();
    child.stdout.write('out');
    child.stderr.write('err');
    child.exit(3);
    expect(process.closed).toBe(false);
    child.stdout.write('late');
    child.stdout.end();
    expect([process.exitCode, process.closed]).toEqual([3, false]);
    child.stderr.end();
    expect(events).toEqual(['1 stdout out', '2 stderr err', '3 exited 3', '4 stdout late', '5 closed']);
    expect([process.closed, process.nextSeq, child.released]).toEqual([true, 6, 1]);
  });

  test('does not close when the streams end before the exit', () => {
    const { child, process, events } = start();
    child.endStreams();
    expect(events).toEqual([]);
    expect([process.exitCode, process.closed]).toEqual([null, false]);
    child.exit(0);
    expect(events).toEqual(['1 exited 0', '2 closed']);
  });

  test.each([
    [{ code: 0, signal: null }, 0],
    [{ code: 255, signal: null }, 255],
    [{ code: null, signal: 2 }, 130],
    [{ code: null, signal: 9 }, 137],
    [{ code: null, signal: 11 }, 139],
  ])('reports %j as %s', (status, exitCode) => {
    const { child, process } = start();
    child.exit(status);
    expect(process.exitCode).toBe(exitCode);
    child.endStreams();
  });

  test('reports a child that exited before the listener was added', async () => {
    const child = new FakeChild();
    child.finish(7);
    const { events } = start(child);
    await settled();
    expect(events).toEqual(['1 exited 7', '2 closed']);
  });

  test('splits large output into chunks of the retained size, with a minimum', () => {
    const { child, events } = start();
    child.stdout.write(Buffer.alloc(OUTPUT_READ_BYTES * 2 + 1));
    expect(events).toHaveLength(3);
  });

  test.each([
    [4, ['1 stdout abcdef', '2 stdout ghij']],
    [9, ['1 stdout a', '2 stdout bcdefghij']],
    [10, ['1 stdout abcdefghij']],
    [0, ['1 stdout abcdefghij']],
  ])(
    'ends output with a chunk of which all is retained, with a tail of %s bytes',
    async (tailBytes, chunks) => {
      const retention = { ...RETENTION, headBytes: 0, tailBytes };
      const { child, events, read } = start(new FakeChild(), { retention });
      child.stdout.write('abcdefghij');
      expect(events).toEqual(chunks);
      const retained = tailBytes === 0 ? [] : [{ seq: chunks.length }];
      expect(await read({ waitMs: 60_000 })).toMatchObject({ chunks: retained, nextSeq: chunks.length + 1 });
    },
  );

  test('splits output into chunks that a reader accepts', () => {
    const { child, events } = start(new FakeChild(), { retention: { ...RETENTION, maxChunkBytes: 3 } });
    child.stdout.write('abcdefg');
    expect(events).toEqual(['1 stdout abc', '2 stdout def', '3 stdout g']);
  });
});

describe('read', () => {
  test('returns available output immediately, with the state', async () => {
    const { child, read } = start();
    child.stdout.write('aaaa');
    child.stderr.write('bbbb');
    expect(await read({ waitMs: 60_000 })).toMatchObject({ nextSeq: 3, exitCode: null, closed: false });
    expect(await read({ maxBytes: 0 })).toMatchObject({ chunks: [{ seq: 1 }], nextSeq: 2 });
    child.finish(1);
    expect(await read({ maxBytes: 100 })).toMatchObject({ nextSeq: 3, exitCode: 1, closed: true });
    expect(await read({ afterSeq: 2, maxBytes: 4 })).toMatchObject({ chunks: [], nextSeq: 5 });
    expect(await read()).toMatchObject({ chunks: [{ seq: 1 }, { seq: 2 }], nextSeq: 5 });
    expect(await read({ afterSeq: 99, waitMs: 60_000 })).toMatchObject({ chunks: [], nextSeq: 5 });
  });

  test('returns the state at the end of a page limited by its budget, and continues there', async () => {
    const { child, read } = start();
    const pageAfter = (afterSeq: number, maxBytes: number | null = null) =>
      read({ afterSeq, maxBytes, waitMs: 60_000, budget: { size: 2, sizeOf: () => 1 } });
    for (const text of ['1', '2', '3']) child.stdout.write(text);
    child.exit(7);
    for (const text of ['5', '6', '7']) child.stdout.write(text);
    child.endStreams();
    const chunks = (...seqs: number[]) => seqs.map((seq) => ({ seq }));
    expect(await pageAfter(0)).toMatchObject({
      ...{ chunks: chunks(1, 2), nextSeq: 3, exitCode: null, closed: false },
    });
    expect(await pageAfter(2)).toMatchObject({
      ...{ chunks: chunks(3, 5), nextSeq: 6, exitCode: 7, closed: false },
    });
    expect(await pageAfter(5)).toMatchObject({
      ...{ chunks: chunks(6, 7), nextSeq: 9, exitCode: 7, closed: true },
    });
    expect(await pageAfter(0, 100)).toMatchObject({
      ...{ chunks: chunks(1, 2), nextSeq: 3, exitCode: 7, closed: true },
    });
  });

  test('ends an empty wait at the timeout with the current state', async () => {
    const { read } = start();
    const page = read({ waitMs: 1_000 });
    vi.advanceTimersByTime(999);
    expect(await isPending(page)).toBe(true);
    vi.advanceTimersByTime(1);
    expect(await page).toMatchObject({ chunks: [], nextSeq: 1 });
  });

  test('ends a wait on output after the given sequence number, but not before it', async () => {
    const { child, read } = start();
    const page = read({ afterSeq: 2, waitMs: 1_000 });
    child.stdout.write('1');
    child.stdout.write('2');
    expect(await isPending(page)).toBe(true);
    child.stdout.write('3');
    expect((await page).chunks.map(({ seq }) => seq)).toEqual([3]);
  });

  test('ends a wait on an exit that is not known yet, otherwise on the close', async () => {
    const { child, read } = start();
    const [waitsForNews, knowsExit] = [read({ waitMs: 2 ** 64 }), read({ afterSeq: 1, waitMs: 2 ** 64 })];
    child.exit(0);
    expect(await waitsForNews).toMatchObject({ nextSeq: 2, exitCode: 0, closed: false });
    expect(await read({ waitMs: 1_000 })).toMatchObject({ exitCode: 0 });
    expect(await isPending(knowsExit)).toBe(true);
    child.endStreams();
    expect(await knowsExit).toMatchObject({ nextSeq: 3, closed: true });
  });

  test('calls onWait, and stops waiting on abort', async () => {
    const { process, read, child } = start();
    const giveUp = new AbortController();
    const onWait = vi.fn();
    const page = process.read({ afterSeq: 0, maxBytes: null, waitMs: 1_000 }, giveUp.signal, onWait);
    expect(onWait).toHaveBeenCalledOnce();
    giveUp.abort();
    expect(await page).toMatchObject({ chunks: [] });
    expect(await read({ waitMs: 1_000 }, AbortSignal.abort())).toMatchObject({ chunks: [] });
    child.stdout.write('x');
    await process.read({ afterSeq: 0, maxBytes: null, waitMs: 1_000 }, FOREVER, onWait);
    expect(onWait).toHaveBeenCalledOnce();
  });

  test('wakes any number of readers with one chunk', async () => {
    const { child, read } = start();
    const pages = Array.from({ length: 100 }, () => read({ waitMs: 1_000 }));
    child.stdout.write('x');
    expect((await Promise.all(pages)).every(({ chunks }) => chunks.length === 1)).toBe(true);
  });
});

test('waits for the exit or the close, with or without a timeout', async () => {
  const { child, process } = start();
  const exited = process.wait('exited', null, FOREVER);
  const closed = process.wait('closed', MAX_TIMER_MS + 1, FOREVER);
  const impatient = process.wait('closed', 10, FOREVER);
  vi.advanceTimersByTime(10);
  expect(await impatient).toBe(false);
  child.exit(0);
  expect(await exited).toBe(true);
  expect(await isPending(closed)).toBe(true);
  child.endStreams();
  expect(await closed).toBe(true);
  expect(await process.wait('closed', 0, AbortSignal.abort())).toBe(true);
});

test('signals only a running program', () => {
  const { child, process } = start();
  process.signal(2);
  child.exit(0);
  process.signal(2);
  expect(child.signals).toEqual([2]);
  child.endStreams();
});

test('resizes only a terminal', () => {
  const terminal = start(new FakeChild({ streams: ['pty'] }));
  terminal.process.resize(40, 100);
  terminal.child.finish();
  terminal.process.resize(50, 50);
  expect(terminal.child.sizes).toEqual([[40, 100]]);
  expect(() => start().process.resize(1, 1)).toThrow(expect.objectContaining({ code: 'notATerminal' }));
});

describe('stdin', () => {
  test('is closed without a pipe', () => {
    const { process } = start();
    expect(process.write(Buffer.from('x'), null, vi.fn())).toBe('stdinClosed');
    expect(process.closeStdin()).toBe(false);
  });

  test('accepts writes after an exit but cannot be closed, and rejects writes after a kill', async () => {
    const exited = start(new FakeChild({ stdin: true }));
    exited.child.finish();
    expect(exited.process.write(Buffer.from('x'), null, vi.fn())).toBe('accepted');
    expect(exited.process.closeStdin()).toBe(false);
    expect(exited.child.stdin?.destroyed).toBe(true);

    const killed = start(new FakeChild({ stdin: true }));
    await killed.process.kill();
    expect(() => killed.process.write(Buffer.from('x'), null, vi.fn())).toThrow(/stdin is gone/);
  });

  test('is closed after the kill, when the program can no longer exit because of it', async () => {
    const { child, process } = start(new FakeChild({ stdin: true }));
    const die = child.onKill;
    let closedBefore: boolean | undefined;
    child.onKill = () => {
      closedBefore = child.stdin?.destroyed;
      die();
    };
    await process.kill();
    expect(closedBefore).toBe(false);
    expect(child.stdin?.destroyed).toBe(true);
  });

  test('sends a terminal its end-of-file character', () => {
    const { child, process } = start(new FakeChild({ streams: ['pty'], stdin: true }));
    expect(process.closeStdin()).toBe(true);
    child.stdin?.read(1);
    expect(child.stdin?.written).toEqual(['\u0004']);
  });
});

describe('terminate', () => {
  test('kills the tree immediately with force, however often it is called', async () => {
    const { child, process, events } = start();
    child.onKill = () => undefined;
    expect([process.terminate({ type: 'force' }), process.terminate({ type: 'force' })]).toEqual([
      true,
      true,
    ]);
    await settled();
    expect([child.killed, child.signals]).toEqual([1, []]);
    child.exit({ code: null, signal: 9 });
    child.endStreams();
    expect(events).toEqual(['1 exited 137', '2 closed']);
    expect(process.terminate({ type: 'force' })).toBe(false);
    await settled();
  });

  test('sends SIGTERM with grace, and kills after the timeout', async () => {
    const { child, process } = start();
    expect(process.terminate({ type: 'graceful', timeoutMs: 500 })).toBe(true);
    expect(process.terminate({ type: 'graceful', timeoutMs: 9_000 })).toBe(true);
    expect(child.signals).toEqual([SIGTERM, SIGTERM]);
    vi.advanceTimersByTime(499);
    expect(child.killed).toBe(0);
    vi.advanceTimersByTime(1);
    expect(child.killed).toBe(1);
    await settled();
    expect(process.exitCode).toBe(137);
  });

  test('ends a grace period early with force', async () => {
    const { child, process } = start();
    process.terminate({ type: 'graceful', timeoutMs: 2 ** 53 });
    process.terminate({ type: 'force' });
    await settled();
    expect(child.killed).toBe(1);
  });

  test('kills what survives SIGTERM after the timeout or when the process is forgotten', async () => {
    for (const end of ['time', 'forget'] as const) {
      const { child, process } = start();
      process.terminate({ type: 'graceful', timeoutMs: 60_000 });
      child.finish(0);
      expect(child.killed).toBe(0);
      if (end === 'time') vi.advanceTimersByTime(60_000);
      else await process.forget();
      await settled();
      expect(child.killed).toBe(1);
    }
  });

  test('kills nothing when a process that was not terminated is forgotten', async () => {
    const { child, process } = start();
    child.finish(0);
    await process.forget();
    expect(child.killed).toBe(0);
  });

  test('returns false after the exit and kills descendants that hold the output', async () => {
    const { child, process } = start();
    child.exit(0);
    expect(process.terminate({ type: 'force' })).toBe(false);
    await settled();
    expect([child.killed, process.closed]).toEqual([1, true]);
  });

  test('sends them SIGTERM with grace, and kills them after the timeout', async () => {
    const { child, process } = start();
    child.exit(0);
    expect(process.terminate({ type: 'graceful', timeoutMs: 500 })).toBe(false);
    expect([child.signals, child.killed]).toEqual([[SIGTERM], 0]);
    vi.advanceTimersByTime(500);
    await settled();
    expect([child.killed, process.closed]).toEqual([1, true]);
  });
});

describe('a stream that a process outside the tree holds open', () => {
  test('is destroyed a while after everything was killed', async () => {
    const { child, process, events } = start();
    child.onKill = () => child.exit({ code: null, signal: 9 });
    const killed = process.kill();
    await settled();
    child.stderr.end();
    await vi.advanceTimersByTimeAsync(OUTPUT_AFTER_KILL_MS - 1);
    expect(events).toEqual(['1 exited 137']);
    await vi.advanceTimersByTimeAsync(1);
    await killed;
    expect(child.stdout.destroyed).toBe(true);
    expect(events).toEqual(['1 exited 137', '2 closed']);
  });

  test('is not destroyed while a slow client keeps it paused', async () => {
    const { child, process, events } = start();
    child.onKill = () => child.finish(9);
    process.setPaused(true);
    child.stdout.write('unread');
    const killed = process.kill();
    await vi.advanceTimersByTimeAsync(OUTPUT_AFTER_KILL_MS * 10);
    expect(child.stdout.destroyed).toBe(false);
    expect(await isPending(killed)).toBe(true);
    process.setPaused(false);
    await killed;
    expect(events).toEqual(['1 stdout unread', '2 exited 9', '3 closed']);
  });

  test('is destroyed only after it has been read for a while', async () => {
    const { child, process } = start();
    child.onKill = () => child.exit({ code: null, signal: 9 });
    process.setPaused(true);
    const killed = process.kill();
    await vi.advanceTimersByTimeAsync(OUTPUT_AFTER_KILL_MS - 1);
    process.setPaused(false);
    await vi.advanceTimersByTimeAsync(OUTPUT_AFTER_KILL_MS / 2);
    process.setPaused(true);
    process.setPaused(false);
    await vi.advanceTimersByTimeAsync(OUTPUT_AFTER_KILL_MS / 2 - 1);
    expect(child.stdout.destroyed).toBe(false);
    await vi.advanceTimersByTimeAsync(1);
    await killed;
    expect([child.stdout.destroyed, process.closed]).toEqual([true, true]);
  });
});
