import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { IdleWatch } from '../../../src/server/idle-watch.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

function watch(timeoutMs: number) {
  const activity = { accepted: 0, isIdle: true };
  const ended = vi.fn();
  const watching = new IdleWatch(
    timeoutMs,
    () => activity,
    ended,
    () => Date.now(),
  );
  return { activity, ended, watching };
}

test('reports a server that is idle for the time, once', () => {
  const { ended } = watch(1_000);
  vi.advanceTimersByTime(999);
  expect(ended).not.toHaveBeenCalled();
  vi.advanceTimersByTime(251);
  expect(ended).toHaveBeenCalledOnce();
  vi.advanceTimersByTime(10_000);
  expect(ended).toHaveBeenCalledOnce();
});

test('starts again after activity, also after a client that came and went between two checks', () => {
  const { activity, ended } = watch(1_000);
  vi.advanceTimersByTime(900);
  activity.accepted++;
  vi.advanceTimersByTime(900);
  expect(ended).not.toHaveBeenCalled();
  activity.isIdle = false;
  vi.advanceTimersByTime(5_000);
  expect(ended).not.toHaveBeenCalled();
  activity.isIdle = true;
  vi.advanceTimersByTime(1_250);
  expect(ended).toHaveBeenCalledOnce();
});

test('a closed watch reports nothing', () => {
  const { ended, watching } = watch(1_000);
  watching.close();
  vi.advanceTimersByTime(5_000);
  expect(ended).not.toHaveBeenCalled();
});
