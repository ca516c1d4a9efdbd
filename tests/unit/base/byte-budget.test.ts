import { expect, test } from 'vitest';
import { ByteBudget } from '../../../src/base/byte-budget.ts';

test('ByteBudget is full from its limit on until at most half of the limit is left', () => {
  const changes: boolean[] = [];
  const budget = new ByteBudget(10, (full) => changes.push(full));
  budget.add(9);
  expect([budget.bytes, budget.full]).toEqual([9, false]);
  budget.add(1);
  expect([budget.bytes, budget.full]).toEqual([10, true]);
  budget.add(5);
  budget.remove(9);
  expect([budget.bytes, budget.full]).toEqual([6, true]);
  budget.remove(1);
  expect([budget.bytes, budget.full]).toEqual([5, false]);
  budget.add(4);
  expect(changes).toEqual([true, false]);
});

test('ByteBudget is exceeded above its limit', () => {
  const budget = new ByteBudget(10);
  budget.add(10);
  expect(budget.exceeded).toBe(false);
  budget.add(1);
  expect(budget.exceeded).toBe(true);
  budget.add(-1);
  expect(budget.exceeded).toBe(false);
});
