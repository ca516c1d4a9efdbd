import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { ReceiveLimiter } from '../../../src/rpc/receive-limiter.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'Date'] });
});

afterEach(() => {
  vi.useRealTimers();
});

function create(perSecond: number) {
  const changes: boolean[] = [];
  const limiter = new ReceiveLimiter(
    perSecond,
    (open) => changes.push(open),
    () => Date.now(),
  );
  const count = (times: number) => {
    for (let index = 0; index < times; index++) limiter.count();
  };
  return { limiter, changes, count };
}

test("allows a burst of one second's messages, then pauses until more are earned", () => {
  const { changes, count } = create(100);
  count(100);
  expect(changes).toEqual([]);
  count(1);
  expect(changes).toEqual([false]);
  vi.advanceTimersByTime(9);
  expect(changes).toEqual([false]);
  vi.advanceTimersByTime(1);
  expect(changes).toEqual([false, true]);
});

test('counts messages that were in flight when it paused', () => {
  const { changes, count } = create(100);
  count(151);
  expect(changes).toEqual([false]);
  vi.advanceTimersByTime(10);
  expect(changes).toEqual([false]);
  vi.advanceTimersByTime(500);
  expect(changes).toEqual([false, true]);
});

test('never pauses a peer that keeps its rate, and idle time earns at most one second', () => {
  const { changes, count } = create(100);
  for (let second = 0; second < 10; second++) {
    count(100);
    vi.advanceTimersByTime(1_000);
  }
  vi.advanceTimersByTime(60_000);
  count(100);
  expect(changes).toEqual([]);
  count(101);
  expect(changes).toEqual([false]);
});

test('resumes only when both reasons to pause are gone', () => {
  const { limiter, changes, count } = create(100);
  limiter.setAccepting(false);
  limiter.setAccepting(false);
  expect(changes).toEqual([false]);
  count(101);
  limiter.setAccepting(true);
  expect(changes).toEqual([false]);
  vi.advanceTimersByTime(10);
  expect(changes).toEqual([false, true]);
});

test('stop clears the timer', () => {
  const { limiter, changes, count } = create(100);
  count(101);
  limiter.stop();
  expect(vi.getTimerCount()).toBe(0);
  expect(changes).toEqual([false]);
});
