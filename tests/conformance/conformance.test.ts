import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { ensureReference, type RunningServer } from '../../scripts/reference.mjs';
import { loadCases } from './cases.mjs';
import { type Case, formatFailure, type Options, runCase, type ServerKind } from './runner.mjs';
import { learnFacts, startOurs, startReferenceForCases } from './servers.mjs';

const cases = loadCases().filter(({ slow }) => !slow);
const whyNoReference = await ensureReference().then(
  () => undefined,
  (error: Error) => error.message,
);

describe('exec-server', () => {
  play('exec-server', startOurs);
});

describe.skipIf(whyNoReference)(
  `reference${whyNoReference ? ` is not available: ${whyNoReference}` : ''}`,
  () => {
    play('reference', startReferenceForCases);
  },
);

if (whyNoReference) console.warn(`conformance: the reference half is SKIPPED: ${whyNoReference}`);

/** One test per case that applies to this server; those marked serial come last and run alone. */
function play(server: ServerKind, launch: NonNullable<Options['launch']>): void {
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
  const applicable = cases.filter(({ only }) => !only || only === server);
  for (const testCase of applicable.filter(({ serial }) => !serial)) {
    test.concurrent(`${testCase.area}: ${testCase.name}`, check(testCase));
  }
  for (const testCase of applicable.filter(({ serial }) => serial)) {
    test(`${testCase.area}: ${testCase.name}`, check(testCase));
  }
}
