import { expect, test } from 'vitest';
import { MAX_RESULT_BYTES_IN_ALL } from '../../../src/mcp/limits.ts';
import { ResultBudget, withinBudget } from '../../../src/mcp/result-budget.ts';

const { signal } = new AbortController();
const make = (bytes: number) =>
  withinBudget(
    signal,
    async () => bytes,
    (size) => size,
  );

test('results that clients have not read leave no room for others, until the client has them or is gone', async () => {
  const budget = new ResultBudget();
  let read = () => {};
  const closed = new Promise<void>((resolve) => {
    read = resolve;
  });
  await budget.run(closed, () => make(MAX_RESULT_BYTES_IN_ALL + 1));
  const other = () => budget.run(new Promise<void>(() => {}), () => make(1));
  await expect(other()).rejects.toThrow(/too many large results/);
  read();
  await closed;
  await expect(other()).resolves.toBe(1);
});

test('a client on stdio has no limit', async () => {
  await expect(make(MAX_RESULT_BYTES_IN_ALL + 1)).resolves.toBeGreaterThan(0);
  await expect(make(1)).resolves.toBe(1);
});
