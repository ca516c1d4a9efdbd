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
  const intake = new ReceiveLimiter(
    perSecond,
    (open) => changes.push(open),
    () => Date.now(),
  );
  const count = (times: number) => {
    for (let index = 0; index < times; index++) intake.count();
  };
  return { intake, changes, count };
}

test('a second of messages may come at once, then it rests until more are earned', () => {
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

test('what was on its way when it closed is paid for', () => {
  const { changes, count } = create(100);
  count(151);
  expect(changes).toEqual([false]);
  vi.advanceTimersByTime(10);
  expect(changes).toEqual([false]);
  vi.advanceTimersByTime(500);
  expect(changes).toEqual([false, true]);
});

test('who keeps to the rate is never held up, and idleness earns one second at most', () => {
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

test('both reasons must be gone before it opens', () => {
  const { intake, changes, count } = create(100);
  intake.setRoom(false);
  intake.setRoom(false);
  expect(changes).toEqual([false]);
  count(101);
  intake.setRoom(true);
  expect(changes).toEqual([false]);
  vi.advanceTimersByTime(10);
  expect(changes).toEqual([false, true]);
});

test('the end stops its clock', () => {
  const { intake, changes, count } = create(100);
  count(101);
  intake.stop();
  expect(vi.getTimerCount()).toBe(0);
  expect(changes).toEqual([false]);
});
