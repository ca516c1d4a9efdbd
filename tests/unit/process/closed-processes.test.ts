import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { ClosedProcesses, type KeptProcess } from '../../../src/process/closed-processes.ts';
import { DROPPED_PROCESS_RECORDS } from '../../../src/process/limits.ts';

const RETENTION_MS = 30_000;
const HOUR_MS = 3_600_000;
const PRESENT = { confirmReceived: (_sentBeforeMs: number, confirmed: () => void) => confirmed() };

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'], now: Date.UTC(2026, 0, 1) });
});

afterEach(() => {
  vi.useRealTimers();
});

function create() {
  const kept = new Set<KeptProcess>();
  const closed = new ClosedProcesses(RETENTION_MS, {
    keep: (process) => kept.add(process),
    release: (process) => kept.delete(process),
  });
  const forgotten: string[] = [];
  const add = (processId: string, exitCode = 0, retainMs: number | null = null) =>
    closed.add({ processId, exitCode, retainedBytes: 10, retainMs, forget: () => forgotten.push(processId) });
  return { closed, kept, forgotten, add };
}

test('a process with a retention time of its own is limited from the beginning and expires after that time', () => {
  const { kept, forgotten, add } = create();
  add('p', 0, HOUR_MS);
  expect(kept.size).toBe(1);
  vi.advanceTimersByTime(HOUR_MS - 1);
  expect(forgotten).toEqual([]);
  vi.advanceTimersByTime(1);
  expect([forgotten, kept.size]).toEqual([['p'], 0]);
});

describe('while no client is attached', () => {
  test('nothing expires, whether it closed before or after the detach', () => {
    const { closed, kept, forgotten, add } = create();
    add('before');
    vi.advanceTimersByTime(RETENTION_MS - 1);
    closed.detach();
    add('after');
    vi.advanceTimersByTime(HOUR_MS);
    expect(forgotten).toEqual([]);
    expect([...kept]).toMatchObject([{ retainedBytes: 10 }, { retainedBytes: 10 }]);
    expect(closed.size).toBe(2);
  });

  test('a process is offered to the keeper when its retention has ended, not earlier', () => {
    const { closed, kept, add } = create();
    closed.detach();
    add('p');
    vi.advanceTimersByTime(RETENTION_MS - 1);
    expect(kept.size).toBe(0);
    vi.advanceTimersByTime(1);
    expect(kept.size).toBe(1);
  });
});

describe('a client that attaches', () => {
  test('has the whole retention time for every closed process', () => {
    const { closed, kept, forgotten, add } = create();
    closed.detach();
    add('old');
    vi.advanceTimersByTime(HOUR_MS);
    add('new');
    vi.advanceTimersByTime(RETENTION_MS - 1);
    closed.attach(PRESENT);
    vi.advanceTimersByTime(RETENTION_MS - 1);
    expect(forgotten).toEqual([]);
    vi.advanceTimersByTime(1);
    expect(forgotten).toEqual(['old', 'new']);
    expect(kept.size).toBe(0);
    expect(vi.getTimerCount()).toBe(0);
  });

  test('and detaches again loses nothing', () => {
    const { closed, forgotten, add } = create();
    add('p');
    for (let round = 0; round < 5; round++) {
      closed.detach();
      vi.advanceTimersByTime(HOUR_MS);
      closed.attach(PRESENT);
      vi.advanceTimersByTime(RETENTION_MS - 1);
    }
    expect(forgotten).toEqual([]);
  });

  test('again and again has its processes counted from the end of their first retention time', () => {
    const { closed, kept, forgotten, add } = create();
    add('p');
    const reconnect = (afterMs: number) => {
      vi.advanceTimersByTime(afterMs);
      closed.detach();
      closed.attach(PRESENT);
    };
    reconnect(RETENTION_MS / 2);
    reconnect(RETENTION_MS / 2 - 1);
    expect(kept.size).toBe(0);
    vi.advanceTimersByTime(1);
    expect(kept.size).toBe(1);
    for (let round = 0; round < 5; round++) reconnect(RETENTION_MS / 2);
    expect([kept.size, forgotten]).toEqual([1, []]);
    [...kept][0]!.drop('someLimit');
    expect([kept.size, forgotten]).toEqual([0, ['p']]);
    expect(vi.getTimerCount()).toBe(0);
  });
});

describe('a client that is attached but silent', () => {
  function silent() {
    const confirmations: (() => void)[] = [];
    const fixture = create();
    fixture.closed.attach({ confirmReceived: (_sentBeforeMs, confirmed) => confirmations.push(confirmed) });
    fixture.add('p');
    vi.advanceTimersByTime(HOUR_MS);
    return { ...fixture, confirmations };
  }

  test('keeps its processes until it is heard from', () => {
    const { closed, kept, forgotten, confirmations } = silent();
    expect([forgotten, closed.size, kept.size, confirmations.length]).toEqual([[], 1, 1, 1]);
    confirmations[0]!();
    expect([forgotten, closed.size, kept.size]).toEqual([['p'], 0, 0]);
  });

  test('keeps them when it turns out to be gone, and when it comes back', () => {
    const { closed, kept, forgotten, confirmations } = silent();
    closed.detach();
    expect(kept.size).toBe(1);
    confirmations[0]!();
    closed.attach(PRESENT);
    confirmations[0]!();
    vi.advanceTimersByTime(RETENTION_MS - 1);
    expect(forgotten).toEqual([]);
    vi.advanceTimersByTime(1);
    expect([forgotten, kept.size]).toEqual([['p'], 0]);
  });
});

describe('a dropped process', () => {
  function drop(reportsDropped: boolean) {
    const fixture = create();
    fixture.closed.reportsDropped = reportsDropped;
    fixture.closed.detach();
    fixture.add('p', 7);
    vi.advanceTimersByTime(RETENTION_MS);
    [...fixture.kept][0]!.drop('someLimit');
    return fixture;
  }

  test('is forgotten, released and recorded', () => {
    const { closed, kept, forgotten } = drop(true);
    expect([forgotten, kept.size, closed.size]).toEqual([['p'], 0, 0]);
    const closedAtMs = Date.UTC(2026, 0, 1);
    const droppedAtMs = closedAtMs + RETENTION_MS;
    expect(closed.dropped).toEqual([
      { processId: 'p', exitCode: 7, closedAtMs, droppedAtMs, limit: 'someLimit' },
    ]);
  });

  test('is named in the error for its id, if the client asked for that', () => {
    expect(drop(true).closed.unknownProcess('p').message).toBe(
      'process p exited with code 7 and closed at 2026-01-01T00:00:00.000Z; its output was dropped at 2026-01-01T00:00:30.000Z, while it waited for a client (someLimit)',
    );
    expect(drop(true).closed.unknownProcess('q').message).toBe('unknown process id q');
    expect(drop(false).closed.unknownProcess('p').message).toBe('unknown process id p');
  });

  test('is no longer reported when its id is used again', () => {
    const { closed } = drop(true);
    closed.idReused('p');
    expect(closed.dropped).toEqual([]);
    expect(closed.unknownProcess('p').message).toBe('unknown process id p');
  });

  test('is reported until many others were dropped', () => {
    const { closed, kept, add } = create();
    closed.detach();
    for (let index = 0; index <= DROPPED_PROCESS_RECORDS; index++) add(`p${index}`);
    vi.advanceTimersByTime(RETENTION_MS);
    for (const process of kept) process.drop('someLimit');
    expect(closed.dropped).toHaveLength(DROPPED_PROCESS_RECORDS);
    expect(closed.dropped[0]!.processId).toBe('p1');
  });
});

test('closing stops the timers and releases what is kept', () => {
  const { closed, kept, forgotten, add } = create();
  closed.detach();
  add('kept');
  vi.advanceTimersByTime(RETENTION_MS);
  add('recent');
  closed.close();
  expect([kept.size, closed.size, vi.getTimerCount()]).toEqual([0, 0, 0]);
  expect(forgotten).toEqual([]);
});
