import { afterAll, beforeAll, expect, test } from 'vitest';
import type { RunningServer } from '../../scripts/reference.mjs';
import { type Case, formatFailure, type Options, runCase, type ServerKind } from './runner.mjs';
import { learnFacts } from './servers.mjs';

/** Declares one test per case that applies to this server. Cases marked serial come last and run alone. */
export function play(
  server: ServerKind,
  launch: NonNullable<Options['launch']>,
  cases: readonly Case[],
): void {
  let running: RunningServer;
  let facts: Record<string, boolean>;

  beforeAll(async () => {
    running = await launch();
    facts = await learnFacts(running.url);
  });
  afterAll(() => running?.stop());

  const check = (testCase: Case) => async () => {
    const result = await runCase(testCase, { url: running.url, server, launch, facts });
    if (result.status === 'failed') {
      throw new Error([formatFailure(result), testCase.about, ...result.transcript].join('\n'));
    }
    expect(result).toEqual({ name: testCase.name, status: 'passed' });
  };
  const applicable = cases.filter(({ only, slow }) => !slow && (!only || only === server));
  for (const testCase of applicable.filter(({ serial }) => !serial)) {
    test.concurrent(`${testCase.area}: ${testCase.name}`, check(testCase));
  }
  for (const testCase of applicable.filter(({ serial }) => serial)) {
    test(`${testCase.area}: ${testCase.name}`, check(testCase));
  }
}
