import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { BusyPoll, BusyPollClient } from '../../../src/server/busy-poll.ts';
import {
  BUSY_POLL_CREDIT,
  BUSY_POLL_MAX_PAUSE_MS,
  BUSY_POLL_MAX_TURNS,
  BUSY_POLL_MS,
  PIPELINED_PAUSE_MS,
} from '../../../src/server/limits.ts';

let nowMs: number;
/** The callbacks that the event loop runs in its next turn. */
let immediates: (() => void)[];
const yieldCpu = vi.fn();
let poll: BusyPoll;
let client: BusyPollClient;

beforeEach(() => {
  nowMs = 1_000;
  immediates = [];
  vi.spyOn(process, 'uptime').mockImplementation(() => nowMs / 1_000);
  vi.spyOn(globalThis, 'setImmediate').mockImplementation(((turn: () => void) => {
    immediates.push(turn);
  }) as typeof setImmediate);
  poll = new BusyPoll();
  poll.enable(yieldCpu, 2);
  client = new BusyPollClient(poll);
});

afterEach(() => {
  yieldCpu.mockClear();
  vi.restoreAllMocks();
});

/** A request that arrives `pauseMs` after the last response and is answered immediately. */
function exchange(pauseMs: number, from = client): void {
  nowMs += pauseMs;
  from.requestReceived();
  from.responseSent();
}

/** Turns the event loop up to `most` times while it has callbacks. Returns the number of turns. */
function turns(most: number, eachMs = 0): number {
  let count = 0;
  for (; count < most && immediates.length > 0; count++) {
    nowMs += eachMs;
    immediates.splice(0)[0]!();
  }
  return count;
}

const SOON = BUSY_POLL_MAX_PAUSE_MS / 2;

test('polls for a short time after a response to a fast client', () => {
  exchange(1_000);
  expect(immediates).toEqual([]);
  exchange(SOON);
  expect(immediates).toHaveLength(1);
  const eachMs = BUSY_POLL_MS / 10;
  const count = turns(100, eachMs);
  expect(count).toBeGreaterThanOrEqual(10);
  // Other threads run in between.
  expect(yieldCpu).toHaveBeenCalledTimes(count - 1);
  expect(immediates).toEqual([]);
});

test('stops at the next request and starts again after its response', () => {
  exchange(1_000);
  exchange(SOON);
  client.requestReceived();
  expect(turns(100)).toBe(1);
  client.responseSent();
  expect(immediates).toEqual([]);
  exchange(SOON);
  exchange(SOON);
  expect(immediates).toHaveLength(1);
});

test('stops polling for a client after a few slow requests', () => {
  exchange(1_000);
  exchange(SOON);
  for (let late = 1; late < BUSY_POLL_CREDIT; late++) {
    turns(BUSY_POLL_MAX_TURNS + 1);
    exchange(2 * BUSY_POLL_MAX_PAUSE_MS);
    expect(immediates).toHaveLength(1);
  }
  turns(BUSY_POLL_MAX_TURNS + 1);
  exchange(2 * BUSY_POLL_MAX_PAUSE_MS);
  expect(immediates).toEqual([]);
});

test('does not poll for a client that pipelines requests', () => {
  exchange(1_000);
  exchange(SOON);
  exchange(PIPELINED_PAUSE_MS / 2);
  expect(turns(100)).toBe(1);
});

test('runs one poll for all clients', () => {
  const other = new BusyPollClient(poll);
  exchange(1_000);
  exchange(SOON / 2, other);
  exchange(SOON / 2);
  exchange(SOON / 2, other);
  expect(immediates).toHaveLength(1);
});

test('stops after a number of turns even if the clock stands still', () => {
  exchange(1_000);
  exchange(SOON);
  expect(turns(BUSY_POLL_MAX_TURNS * 2)).toBe(BUSY_POLL_MAX_TURNS + 1);
});

test('does not poll on a single CPU', () => {
  poll = new BusyPoll();
  poll.enable(yieldCpu, 1);
  client = new BusyPollClient(poll);
  for (let count = 0; count < 3; count++) exchange(SOON);
  expect(immediates).toEqual([]);
});

test('does not poll before it is enabled', () => {
  client = new BusyPollClient(new BusyPoll());
  exchange(1_000);
  for (let count = 0; count < 3; count++) exchange(SOON);
  expect(immediates).toEqual([]);
});

test('a client without a poll does not even read the clock', () => {
  client = new BusyPollClient(null);
  for (let count = 0; count < 3; count++) exchange(SOON);
  expect(immediates).toEqual([]);
  expect(process.uptime).not.toHaveBeenCalled();
});
