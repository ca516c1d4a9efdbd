import { describe, expect, test } from 'vitest';
import { closed, exited, failed, RUNNING } from '../../../../src/agent/session/process-state.ts';

describe('process state', () => {
  test.each([
    ['a normal end', closed(exited(RUNNING, 3, false)), { exitCode: 3, closed: true, ended: true }],
    ['an exit alone', exited(RUNNING, 0, true), { exitCode: 0, ended: false, sandboxDenied: true }],
    ['a failure', failed(RUNNING, 'gone'), { hasExited: true, exitCode: null, failureMessage: 'gone' }],
    [
      'a failure behind an exit',
      failed(exited(RUNNING, 3, true), 'gone'),
      { exitCode: 3, sandboxDenied: true, closed: false },
    ],
    [
      'an exit behind a failure',
      exited(failed(RUNNING, 'gone'), 3, false),
      { exitCode: 3, failureMessage: 'gone' },
    ],
    ['a second failure', failed(failed(RUNNING, 'first'), 'second'), { failureMessage: 'first' }],
    ['a second exit without denial', exited(exited(RUNNING, 1, true), 1, false), { sandboxDenied: true }],
  ])('%s', (_, state, expected) => {
    expect(state).toMatchObject(expected);
  });

  test('starts without an exit code or a failure', () => {
    expect(RUNNING).toEqual({
      hasExited: false,
      exitCode: null,
      ended: false,
      closed: false,
      failureMessage: null,
      sandboxDenied: false,
    });
  });
});
