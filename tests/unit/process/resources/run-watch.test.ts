import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { LimitReason, RunLimits } from '../../../../src/process/resources/resource-limits.ts';
import { RunWatch } from '../../../../src/process/resources/run-watch.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

function watch(limits: Partial<RunLimits>, reading = true) {
  const breaches: LimitReason[] = [];
  const watched = new RunWatch({ wallMs: null, idleMs: null, outputBytes: null, ...limits }, (reason) =>
    breaches.push(reason),
  );
  watched.begin(reading);
  return { watched, breaches };
}

test('reports nothing without limits', () => {
  const { watched, breaches } = watch({});
  expect(watched.output(2 ** 40)).toBe(2 ** 40);
  vi.advanceTimersByTime(10 ** 9);
  expect(breaches).toEqual([]);
  expect(watched.reason).toBeNull();
});

test('counts running time regardless of output', () => {
  const { watched, breaches } = watch({ wallMs: 100, idleMs: 60 });
  for (let passed = 0; passed < 90; passed += 30) {
    vi.advanceTimersByTime(30);
    watched.output(1);
  }
  expect(breaches).toEqual([]);
  vi.advanceTimersByTime(10);
  expect(breaches).toEqual(['timeout']);
  expect(watched.reason).toBe('timeout');
});

test('counts time without output from the last output', () => {
  const { watched, breaches } = watch({ idleMs: 100 });
  vi.advanceTimersByTime(99);
  watched.output(1);
  vi.advanceTimersByTime(99);
  expect(breaches).toEqual([]);
  vi.advanceTimersByTime(2);
  expect(breaches).toEqual(['idle']);
});

test('does not count time without output while reading is paused, and restarts it', () => {
  const { watched, breaches } = watch({ idleMs: 100 }, false);
  vi.advanceTimersByTime(1_000);
  watched.setReading(true);
  vi.advanceTimersByTime(90);
  watched.setReading(false);
  vi.advanceTimersByTime(1_000);
  watched.setReading(true);
  vi.advanceTimersByTime(90);
  expect(breaches).toEqual([]);
  vi.advanceTimersByTime(10);
  expect(breaches).toEqual(['idle']);
});

test('delivers output up to the last allowed byte', () => {
  const { watched, breaches } = watch({ outputBytes: 10 });
  expect(watched.output(6)).toBe(6);
  expect(watched.output(4)).toBe(4);
  expect(breaches).toEqual([]);
  expect(watched.output(1)).toBe(0);
  expect(breaches).toEqual(['outputLimit']);
  expect(watched.output(5)).toBe(0);
});

test('truncates output at the limit', () => {
  const { watched } = watch({ outputBytes: 10 });
  expect(watched.output(64)).toBe(10);
});

test('reports only the first exceeded limit, and none after the end', () => {
  const first = watch({ outputBytes: 1, wallMs: 10 });
  first.watched.output(5);
  vi.advanceTimersByTime(20);
  expect(first.breaches).toEqual(['outputLimit']);

  const ended = watch({ outputBytes: 1, wallMs: 10, idleMs: 5 });
  ended.watched.stop();
  ended.watched.output(5);
  ended.watched.setReading(true);
  vi.advanceTimersByTime(20);
  expect(ended.breaches).toEqual([]);
  expect(ended.watched.reason).toBeNull();
});

test('does not fire immediately with a limit beyond the range of timers', () => {
  const { breaches } = watch({ wallMs: 2 ** 40, idleMs: 2 ** 40 });
  vi.advanceTimersByTime(1_000);
  expect(breaches).toEqual([]);
});
