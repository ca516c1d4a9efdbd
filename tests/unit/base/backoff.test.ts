import { describe, expect, test, vi } from 'vitest';
import { Backoff, lengtheningJitter, shorteningJitter } from '../../../src/base/backoff.ts';

const delays = (backoff: Backoff, count: number) => Array.from({ length: count }, () => backoff.next());

describe('Backoff', () => {
  test('doubles each delay up to the maximum', () => {
    expect(delays(new Backoff(50, 1_000), 7)).toEqual([50, 100, 200, 400, 800, 1_000, 1_000]);
  });

  test('multiplies each delay by the jitter', () => {
    expect(delays(new Backoff(50, 1_000, () => 0.5), 6)).toEqual([25, 50, 100, 200, 400, 500]);
  });

  test('starts again after a reset', () => {
    const backoff = new Backoff(50, 1_000);
    delays(backoff, 3);
    backoff.reset();
    expect(delays(backoff, 2)).toEqual([50, 100]);
  });
});

test.each([
  [0, 0.5, 1],
  [0.5, 0.75, 1.25],
  [1, 1, 1.5],
])('jitter for the random number %d shortens to %d or lengthens to %d', (random, shortened, lengthened) => {
  const spy = vi.spyOn(Math, 'random').mockReturnValue(random);
  const jitters = [shorteningJitter(), lengtheningJitter()];
  spy.mockRestore();
  expect(jitters).toEqual([shortened, lengthened]);
});
