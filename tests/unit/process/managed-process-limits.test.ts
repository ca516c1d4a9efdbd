import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { ManagedProcess } from '../../../src/process/managed-process.ts';
import type { RunLimits } from '../../../src/process/resources/resource-limits.ts';
import { FakeChild } from './fake-child.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
});
afterEach(() => {
  expect(vi.getTimerCount()).toBe(0);
  vi.useRealTimers();
});

function start(limits: Partial<RunLimits>, child = new FakeChild(), paused = false) {
  const events: string[] = [];
  const process = new ManagedProcess(
    child,
    { headBytes: 10, tailBytes: 1_000, maxChunks: 10 },
    {
      output: (_seq, _stream, bytes) => events.push(`output ${bytes}`),
      exited: (_seq, exitCode, reason) => events.push(`exited ${exitCode} ${reason}`),
      closed: (_seq, reason) => events.push(`closed ${reason}`),
    },
    { wallMs: null, idleMs: null, outputBytes: null, ...limits },
  );
  process.begin(paused);
  return { child, process, events };
}

const settled = () => new Promise(setImmediate);

test('kills a program that runs too long and reports the limit', async () => {
  const { child, process, events } = start({ wallMs: 100 });
  child.stdout.write('busy');
  vi.advanceTimersByTime(99);
  await settled();
  expect(child.killed).toBe(0);
  vi.advanceTimersByTime(1);
  await settled();
  expect(events).toEqual(['output busy', 'exited 137 timeout', 'closed timeout']);
  expect(process.reason).toBe('timeout');
});

test('kills a program without output, but not one whose output is not read', async () => {
  const { child, process, events } = start({ idleMs: 100 }, new FakeChild(), true);
  vi.advanceTimersByTime(1_000);
  process.setPaused(false);
  vi.advanceTimersByTime(60);
  child.stderr.write('sign');
  vi.advanceTimersByTime(99);
  await settled();
  expect(child.killed).toBe(0);
  vi.advanceTimersByTime(1);
  await settled();
  expect(events).toEqual(['output sign', 'exited 137 idle', 'closed idle']);
});

test('delivers output up to the limit before the end, and nothing beyond it', async () => {
  const { child, process, events } = start({ outputBytes: 6 });
  child.stdout.write('1234');
  child.stderr.write('56789');
  child.stdout.write('more');
  await settled();
  expect(events).toEqual(['output 1234', 'output 56', 'exited 137 outputLimit', 'closed outputLimit']);
  const page = await process.read(
    { afterSeq: 0, maxBytes: null, waitMs: 0 },
    new AbortController().signal,
    () => {},
  );
  expect(page).toMatchObject({ reason: 'outputLimit', exitCode: 137, closed: true });
});

test('reports no reason and leaves no timer for a program within its limits', async () => {
  const { child, process, events } = start({ wallMs: 100, idleMs: 50, outputBytes: 10 });
  child.stdout.write('1234567890');
  child.finish(0);
  await settled();
  expect(events).toEqual(['output 1234567890', 'exited 0 null', 'closed null']);
  expect(process.reason).toBeNull();
});

test('applies the time limit to processes that a program leaves behind, and reports it with the close', async () => {
  const child = new FakeChild();
  child.onKill = () => child.endStreams();
  const { events } = start({ wallMs: 100 }, child);
  child.exit(0);
  vi.advanceTimersByTime(100);
  await settled();
  expect(events).toEqual(['exited 0 null', 'closed timeout']);
});

test('reports an OOM kill', async () => {
  const { child, events } = start({ wallMs: 100 });
  child.endStreams();
  child.exit({ code: null, signal: 9, outOfMemory: true });
  await settled();
  expect(events).toEqual(['exited 137 oom', 'closed oom']);
});
