import { expect, test } from 'vitest';
import { LIGHT_USE_MS } from '../../../src/transport/limits.ts';
import { TurnCredit } from '../../../src/transport/turn-credit.ts';

test('is spent when its cost is, and full again in the next turn', () => {
  const credit = new TurnCredit(10, () => 0);
  credit.spend(9);
  expect(credit.isSpent).toBe(false);
  credit.spend(5);
  expect(credit.isSpent).toBe(true);
  credit.startTurn();
  expect(credit.isSpent).toBe(false);
});

test('is renewed without a turn only when it lasted long', () => {
  let nowMs = 0;
  const credit = new TurnCredit(10, () => nowMs);
  credit.spend(10);
  nowMs = LIGHT_USE_MS - 1;
  expect([credit.renewAfterLightUse(), credit.isSpent]).toEqual([false, true]);
  nowMs = LIGHT_USE_MS;
  expect([credit.renewAfterLightUse(), credit.isSpent]).toEqual([true, false]);
  credit.spend(10);
  expect(credit.renewAfterLightUse()).toBe(false);
});

test('a change counts for the current turn', () => {
  const credit = new TurnCredit(10, () => 0);
  credit.spend(10);
  credit.setPerTurn(15);
  expect(credit.isSpent).toBe(false);
  credit.spend(5);
  expect(credit.isSpent).toBe(true);
});
