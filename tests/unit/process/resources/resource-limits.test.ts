import { expect, test } from 'vitest';
import { effectiveLimits } from '../../../../src/process/resources/resource-limits.ts';

const NOTHING = {
  resources: { memoryBytes: null, pids: null, cpuPercent: null },
  run: { wallMs: null, idleMs: null, outputBytes: null },
};

test.each([
  [null, {}],
  [undefined, undefined],
  [{}, {}],
  [{ wallMs: null }, { wallMs: 0, pids: 0 }],
])('%j within %j is no limit', (requested, allowed) => {
  expect(effectiveLimits(requested, allowed)).toEqual(NOTHING);
});

test('uses the stricter of two limits, each by itself', () => {
  const { resources, run } = effectiveLimits(
    { memoryBytes: 10, pids: 5, wallMs: 7 },
    { memoryBytes: 20, pids: 3, idleMs: 9, wallMs: 0 },
  );
  expect(resources).toEqual({ memoryBytes: 10, pids: 3, cpuPercent: null });
  expect(run).toEqual({ wallMs: 7, idleMs: 9, outputBytes: null });
});
