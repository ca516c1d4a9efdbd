import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { ClientPace, stayAwakeWith } from '../../../src/server/client-pace.ts';
import { AWAKE_MS, AWAKE_TURNS, BRISK_CREDIT, BRISK_MS, IN_ADVANCE_MS } from '../../../src/server/limits.ts';

const { processors } = vi.hoisted(() => ({ processors: { count: 2 } }));
vi.mock('node:os', async (original) => ({
  ...(await original<typeof import('node:os')>()),
  availableParallelism: () => processors.count,
}));

let nowMs: number;
/** What the event loop does next. */
let immediates: (() => void)[];
const calls = { yield: vi.fn() };
let pace: ClientPace;

beforeEach(() => {
  nowMs = 1_000;
  immediates = [];
  vi.spyOn(performance, 'now').mockImplementation(() => nowMs);
  vi.spyOn(globalThis, 'setImmediate').mockImplementation(((turn: () => void) => {
    immediates.push(turn);
  }) as typeof setImmediate);
  pace = new ClientPace();
  processors.count = 2;
  stayAwakeWith(() => calls);
});

afterEach(() => {
  // What is shared by all clients must not stay awake for the next test.
  turns(AWAKE_TURNS + 1);
  expect(immediates).toEqual([]);
  calls.yield.mockClear();
  vi.restoreAllMocks();
});

/** A request that comes so long after the last answer, and is answered at once. */
function exchange(pauseMs: number, client = pace): void {
  nowMs += pauseMs;
  client.asked();
  client.answered();
}

/** Turns the loop at most so often; returns how often it turned without anything to do. */
function turns(most: number, eachMs = 0): number {
  let count = 0;
  for (; count < most && immediates.length > 0; count++) {
    nowMs += eachMs;
    immediates.splice(0)[0]!();
  }
  return count;
}

const SOON = BRISK_MS / 2;

test('a client that asks again at once is waited for awake, for a moment', () => {
  exchange(1_000);
  expect(immediates).toEqual([]);
  exchange(SOON);
  expect(immediates).toHaveLength(1);
  const eachMs = AWAKE_MS / 10;
  const count = turns(100, eachMs);
  expect(count).toBeGreaterThanOrEqual(10);
  // Others run in between.
  expect(calls.yield).toHaveBeenCalledTimes(count - 1);
  expect(immediates).toEqual([]);
});

test('the next request ends that, and its answer begins it anew', () => {
  exchange(1_000);
  exchange(SOON);
  pace.asked();
  expect(turns(100)).toBe(1);
  pace.answered();
  expect(immediates).toEqual([]);
  exchange(SOON);
  exchange(SOON);
  expect(immediates).toHaveLength(1);
});

test('one that takes its time is not waited for, after a few that came later', () => {
  exchange(1_000);
  exchange(SOON);
  for (let late = 1; late < BRISK_CREDIT; late++) {
    turns(AWAKE_TURNS + 1);
    exchange(2 * BRISK_MS);
    expect(immediates).toHaveLength(1);
  }
  turns(AWAKE_TURNS + 1);
  exchange(2 * BRISK_MS);
  expect(immediates).toEqual([]);
});

test('one that sends requests in advance is not waited for', () => {
  exchange(1_000);
  exchange(SOON);
  exchange(IN_ADVANCE_MS / 2);
  expect(turns(100)).toBe(1);
});

test('all clients share one wait', () => {
  const other = new ClientPace();
  exchange(1_000);
  exchange(SOON / 2, other);
  exchange(SOON / 2);
  exchange(SOON / 2, other);
  expect(immediates).toHaveLength(1);
});

test('it ends even if the clock stands still', () => {
  exchange(1_000);
  exchange(SOON);
  expect(turns(AWAKE_TURNS * 2)).toBe(AWAKE_TURNS + 1);
});

test('where there is one processor nobody stays awake on it', () => {
  processors.count = 1;
  exchange(1_000);
  exchange(SOON);
  expect(immediates).toEqual([]);
});

test('where others cannot be let run it sleeps, and that is found out once', () => {
  const load = vi.fn(() => {
    throw new Error('not here');
  });
  stayAwakeWith(load);
  exchange(1_000);
  expect(load).not.toHaveBeenCalled();
  for (let count = 0; count < 3; count++) exchange(SOON);
  expect(immediates).toEqual([]);
  expect(load).toHaveBeenCalledOnce();
});
