import { expect, test } from 'vitest';
import { planService, requireReadableProgram } from '../../../../src/cli/service/service-plan.ts';

const planOf = (flags: Parameters<typeof planService>[0]) =>
  planService(flags, {}, ['/home/ann/bin/exec-server']).plan;

test('a service of a program in a home directory is known, but only an account that reads it can run it', () => {
  expect(() => requireReadableProgram(planOf({}))).toThrow(
    '/home/ann/bin/exec-server is in a home directory',
  );
  for (const flags of [{ user: true }, { 'run-as': 'ann' }])
    expect(() => requireReadableProgram(planOf(flags))).not.toThrow();
});
