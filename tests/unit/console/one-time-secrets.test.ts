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
  const kept = new OneTimeSecrets<string>({
    ttlMs: 60_000,
    max,
    ownerOf: (value) => value.split(':')[0]!,
    unused: (value) => unused.push(value),
  });
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

test('a further secret replaces the oldest of the owner that has most', () => {
  const { kept, unused } = secrets(3);
  const issued = ['ann:1', 'bob:1', 'bob:2', 'bob:3'].map((value) => kept.issue(value));
  expect(unused).toEqual(['bob:1']);
  expect(issued.map((secret) => kept.redeem(secret))).toEqual(['ann:1', null, 'bob:2', 'bob:3']);
});

test('secrets can be revoked by their value', () => {
  const { kept, unused } = secrets();
  const issued = ['one', 'two'].map((value) => kept.issue(value));
  kept.revoke((value) => value === 'one');
  expect(issued.map((secret) => kept.redeem(secret))).toEqual([null, 'two']);
  expect(unused).toEqual(['one']);
});
