import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Activity, ActivityGroup } from '../../../../src/client/connection/activity.ts';

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

test('has a timer exactly while something is waited for', async () => {
  const activity = new Activity();
  expect(vi.getTimerCount()).toBe(0);
  const [first, second] = [activity.begin(), activity.begin()];
  expect(vi.getTimerCount()).toBe(1);
  first();
  first();
  expect(vi.getTimerCount()).toBe(1);
  second();
  expect(vi.getTimerCount()).toBe(0);
  const failing = activity.during(Promise.reject(new Error('lost')));
  expect(vi.getTimerCount()).toBe(1);
  await expect(failing).rejects.toThrow('lost');
  expect(vi.getTimerCount()).toBe(0);
});

test('a group ends all its waits, and those to come', () => {
  const group = new ActivityGroup(new Activity());
  const one = group.begin();
  group.begin();
  one();
  expect(vi.getTimerCount()).toBe(1);
  group.end();
  expect(vi.getTimerCount()).toBe(0);
  group.begin();
  expect(vi.getTimerCount()).toBe(0);
});
