import { describe, expect, test } from 'vitest';
import {
  MAX_HTTP_CALLS,
  MAX_LARGE_RESULTS,
  MAX_RESULT_BYTES_IN_ALL,
  MAX_WAITING_HTTP_CALLS,
  MAX_WAITING_RESULTS,
} from '../../../src/mcp/limits.ts';
import { ResultBudget, TooManyResultsError, withinBudget } from '../../../src/mcp/result-budget.ts';

const { signal } = new AbortController();
const NEVER = new Promise<void>(() => {});
const TOO_LARGE = 'x'.repeat(MAX_RESULT_BYTES_IN_ALL);

describe.each(['tool', 'resource'] as const)('results of the kind %s', (kind) => {
  const make = (result: string) => withinBudget(kind, signal, async () => result);

  test('that clients have not read leave no space for others, until the client has them or is gone', async () => {
    const budget = new ResultBudget();
    const { promise: closed, resolve: read } = withResolver();
    await budget.run(closed, () => make(TOO_LARGE));
    for (const other of ['tool', 'resource'] as const) {
      const made = budget.run(NEVER, () => withinBudget(other, signal, async () => 'a'));
      await expect(made).rejects.toThrow(/too many results/);
    }
    read();
    await closed;
    await expect(budget.run(NEVER, () => make('a'))).resolves.toBe('a');
  });

  test('that are made for a client that is gone do not count', async () => {
    const budget = new ResultBudget();
    const { promise: closed, resolve: leave } = withResolver();
    await budget.run(closed, () =>
      withinBudget(kind, signal, async () => {
        leave();
        await closed;
        return TOO_LARGE;
      }),
    );
    await expect(budget.run(NEVER, () => make('a'))).resolves.toBe('a');
  });

  test('have no limit on stdio', async () => {
    await expect(make(TOO_LARGE)).resolves.toBe(TOO_LARGE);
    await expect(make('a')).resolves.toBe('a');
  });

  test('are made a few at a time, and a limited number waits', async () => {
    const budget = new ResultBudget();
    const { promise: finished, resolve: finish } = withResolver();
    let running = 0;
    const slow = () =>
      budget.run(NEVER, () =>
        withinBudget(kind, signal, async () => {
          running++;
          await finished;
        }),
      );
    const [atATime, waiting] =
      kind === 'tool' ? [MAX_HTTP_CALLS, MAX_WAITING_HTTP_CALLS] : [MAX_LARGE_RESULTS, MAX_WAITING_RESULTS];
    const all = Array.from({ length: atATime + waiting }, slow);
    await expect(slow()).rejects.toThrow(TooManyResultsError);
    expect(running).toBe(atATime);
    finish();
    await Promise.all(all);
    expect(running).toBe(atATime + waiting);
  });
});

function withResolver() {
  let resolve = () => {};
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}
