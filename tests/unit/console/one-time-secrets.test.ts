import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { OneTimeSecrets } from '../../../src/console/one-time-secrets.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

function secrets(max = 3) {
  const unused: string[] = [];
  const kept = new OneTimeSecrets<string>({ ttlMs: 60_000, max, unused: (value) => unused.push(value) });
  return { kept, unused };
}

test('a secret yields its value once', () => {
  const { kept, unused } = secrets();
  const secret = kept.issue('value');
  expect(secret).toMatch(/^[\w-]{43}$/);
  expect([kept.redeem(secret), kept.redeem(secret), kept.redeem('other')]).toEqual(['value', null, null]);
  vi.advanceTimersByTime(60_000);
  expect(unused).toEqual([]);
});

test('a secret expires', () => {
  const { kept, unused } = secrets();
  const [early, late] = [kept.issue('early'), kept.issue('late')];
  vi.advanceTimersByTime(59_999);
  expect(kept.redeem(early)).toBe('early');
  vi.advanceTimersByTime(1);
  expect([kept.redeem(late), unused]).toEqual([null, ['late']]);
});

test('a further secret replaces the oldest', () => {
  const { kept, unused } = secrets(2);
  const issued = ['one', 'two', 'three'].map((value) => kept.issue(value));
  expect(unused).toEqual(['one']);
  expect(issued.map((secret) => kept.redeem(secret))).toEqual([null, 'two', 'three']);
});

test('secrets can be revoked by their value', () => {
  const { kept, unused } = secrets();
  const issued = ['one', 'two'].map((value) => kept.issue(value));
  kept.revoke((value) => value === 'one');
  expect(issued.map((secret) => kept.redeem(secret))).toEqual([null, 'two']);
  expect(unused).toEqual(['one']);
});
