import { describe, expect, test, vi } from 'vitest';
import type { ClosedProcessKeeper, KeptProcess } from '../../../../src/process/closed-processes.ts';
import { DEFAULT_CONFIG, type ExecServerConfig } from '../../../../src/server/config/config.ts';
import { DetachedProcesses } from '../../../../src/server/sessions/detached-processes.ts';
import { retainedBytes } from '../../../support/retained-memory.ts';

function create(limits: Partial<ExecServerConfig> = {}) {
  const detached = new DetachedProcesses({ ...DEFAULT_CONFIG, ...limits });
  const dropped: string[] = [];
  const keep = (keeper: ClosedProcessKeeper, name: string, retainedBytes: number) => {
    const process: KeptProcess = {
      retainedBytes,
      drop: (limit) => {
        dropped.push(`${name}: ${limit}`);
        keeper.release(process);
      },
    };
    keeper.keep(process);
    return process;
  };
  return { detached, dropped, keep };
}

test('keeps everything within the limits and counts it', () => {
  const { detached, dropped, keep } = create();
  const [a, b] = [detached.keeperFor('x'), detached.keeperFor('y')];
  const first = keep(a, 'a1', 100);
  keep(a, 'a2', 20);
  keep(b, 'b1', 3);
  expect(detached.total).toEqual({ processes: 3, bytes: 123 });
  a.release(first);
  a.release(first);
  expect(detached.total).toEqual({ processes: 2, bytes: 23 });
  expect(dropped).toEqual([]);
});

test('drops the oldest processes of a session with too many bytes, and of no other', () => {
  const { detached, dropped, keep } = create({ maxDetachedOutputBytesPerSession: 100 });
  const [a, b] = [detached.keeperFor('x'), detached.keeperFor('x')];
  keep(b, 'b1', 100);
  for (const name of ['a1', 'a2', 'a3']) keep(a, name, 30);
  keep(a, 'a4', 45);
  expect(dropped).toEqual(['a1', 'a2'].map((name) => `${name}: maxDetachedOutputBytesPerSession`));
  keep(a, 'a5', 101);
  expect(dropped.slice(2)).toEqual(
    ['a3', 'a4', 'a5'].map((name) => `${name}: maxDetachedOutputBytesPerSession`),
  );
  expect(detached.total).toEqual({ processes: 1, bytes: 100 });
});

describe.each([
  ['bytes', { maxDetachedOutputBytes: 40 }, 'maxDetachedOutputBytes'],
  ['processes', { maxDetachedProcesses: 4 }, 'maxDetachedProcesses'],
] as const)('with too many %s in all sessions', (_what, limits, limit) => {
  test('drops the process that was kept first, whatever its session', () => {
    const { detached, dropped, keep } = create(limits);
    const [a, b] = [detached.keeperFor('x'), detached.keeperFor('x')];
    keep(b, 'b1', 10);
    keep(a, 'a1', 10);
    keep(b, 'b2', 10);
    keep(a, 'a2', 10);
    expect(dropped).toEqual([]);
    keep(a, 'a3', 10);
    keep(a, 'a4', 10);
    keep(a, 'a5', 10);
    expect(dropped).toEqual(['b1', 'a1', 'b2'].map((name) => `${name}: ${limit}`));
  });

  test('no client displaces the processes of others, even with many sessions', () => {
    const { detached, dropped, keep } = create(limits);
    keep(detached.keeperFor('quiet'), 'quiet', 10);
    for (let index = 0; index < 10; index++) keep(detached.keeperFor('greedy'), `greedy${index}`, 10);
    expect(dropped).toHaveLength(7);
    expect(dropped.filter((text) => text.startsWith('quiet'))).toEqual([]);
  });
});

test('looks at one process to find the one to drop, not at those of every session', () => {
  const { detached, dropped, keep } = create({ maxDetachedProcesses: 100 });
  for (let index = 0; index < 100; index++) keep(detached.keeperFor('x'), `p${index}`, 1);
  const keeper = detached.keeperFor('x');
  const looks = vi.spyOn(Set.prototype, 'values');
  try {
    for (let index = 100; index < 110; index++) keep(keeper, `p${index}`, 1);
    expect(looks.mock.calls.length).toBeLessThanOrEqual(10);
  } finally {
    looks.mockRestore();
  }
  expect(dropped).toHaveLength(10);
});

test('drops in order after many drops and releases', () => {
  const { detached, dropped, keep } = create({ maxDetachedProcesses: 100 });
  const keeper = detached.keeperFor('x');
  const expected: string[] = [];
  for (let index = 0; index < 2_000; index++) {
    const process = keep(keeper, `p${index}`, 1);
    // Every third is released in the middle of the queue.
    if (index % 3 === 0) keeper.release(process);
    else expected.push(`p${index}: maxDetachedProcesses`);
  }
  expect(detached.total).toEqual({ processes: 100, bytes: 100 });
  expect(dropped).toEqual(expected.slice(0, -100));
  for (let index = 0; index < 100; index++) keep(keeper, `q${index}`, 1);
  expect(dropped).toEqual(expected);
});

test('needs no memory for processes that were released', () => {
  const { detached } = create();
  const kept = retainedBytes(() => {
    const keeper = detached.keeperFor('x');
    for (let index = 0; index < 1_000; index++) {
      const output = Buffer.alloc(100_000);
      const process: KeptProcess = { retainedBytes: output.length, drop: () => output.fill(0) };
      keeper.keep(process);
      keeper.release(process);
    }
    return [detached, keeper];
  });
  expect(kept).toBeLessThan(10_000_000);
});
