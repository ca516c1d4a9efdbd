import { expect, test } from 'vitest';
import { RunError, reportFailure, UsageError } from '../../../src/cli/failures.ts';
import { ConfigError } from '../../../src/server/config/resolve.ts';

const HINT = "\nTry 'exec-server serve --help'.";
const bug = new TypeError('x is not\n  a function');

test.each([
  ['a usage error', new UsageError('no'), `exec-server: no${HINT}`, 2],
  [
    'a config error',
    new ConfigError('k', { source: 'default', detail: '' }, 'no'),
    `exec-server: no${HINT}`,
    2,
  ],
  [
    'a usage error of a command',
    new UsageError('no', 'relay'),
    "exec-server relay: no\nTry 'exec-server relay --help'.",
    2,
  ],
  [
    'a usage error with a suggestion',
    new UsageError("unknown flag '--lisen'; did you mean '--listen'?"),
    "exec-server: unknown flag '--lisen'; did you mean '--listen'?",
    2,
  ],
  ['a run error', new RunError('no'), 'exec-server: no', 1],
  ['a bug', bug, 'exec-server: unexpected error: x is not a function', 1],
  ['a thrown string', 'oops', 'exec-server: unexpected error: oops', 1],
])('reports %s', (_name, error, text, exitCode) => {
  expect(reportFailure(error, false)).toEqual({ text, exitCode });
});

test('shows the stack of a bug only in debug mode', () => {
  const { text } = reportFailure(bug, true);
  expect(text).toBe(`exec-server: unexpected error: x is not a function\n${bug.stack}`);
  expect(reportFailure(new RunError('no'), true).text).toBe('exec-server: no');
});
