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
    await budget.run('a client', closed, () => make(TOO_LARGE));
    for (const other of ['tool', 'resource'] as const) {
      const made = budget.run('a client', NEVER, () => withinBudget(other, signal, async () => 'a'));
      await expect(made).rejects.toThrow(/too many results/);
    }
    read();
    await closed;
    await expect(budget.run('a client', NEVER, () => make('a'))).resolves.toBe('a');
  });

  test('that are made for a client that is gone do not count', async () => {
    const budget = new ResultBudget();
    const { promise: closed, resolve: leave } = withResolver();
    await budget.run('a client', closed, () =>
      withinBudget(kind, signal, async () => {
        leave();
        await closed;
        return TOO_LARGE;
      }),
    );
    await expect(budget.run('a client', NEVER, () => make('a'))).resolves.toBe('a');
  });

  test('have no limit on stdio', async () => {
    await expect(make(TOO_LARGE)).resolves.toBe(TOO_LARGE);
    await expect(make('a')).resolves.toBe('a');
  });

  test('are made a few at a time, a limited number waits, and one client leaves a share to others', async () => {
    const budget = new ResultBudget();
    const { promise: finished, resolve: finish } = withResolver();
    let running = 0;
    const slow = (client: string) =>
      budget.run(client, NEVER, () =>
        withinBudget(kind, signal, async () => {
          running++;
          await finished;
        }),
      );
    const [atATime, waiting] =
      kind === 'tool' ? [MAX_HTTP_CALLS, MAX_WAITING_HTTP_CALLS] : [MAX_LARGE_RESULTS, MAX_WAITING_RESULTS];
    const share = Math.ceil(atATime / 2);
    const all = Array.from({ length: share + Math.ceil(waiting / 2) }, () => slow('a client'));
    await expect(slow('a client')).rejects.toThrow(TooManyResultsError);
    expect(running).toBe(share);
    all.push(slow('another client'));
    await turn();
    expect(running).toBe(share + 1);
    finish();
    await Promise.all(all);
    expect(running).toBe(all.length);
  });
});

const turn = () => new Promise(setImmediate);

function withResolver() {
  let resolve = () => {};
  const promise = new Promise<void>((done) => {
    resolve = done;
  });
  return { promise, resolve };
}
