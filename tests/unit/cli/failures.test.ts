import { describe, expect, test } from 'vitest';
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

test('control characters of servers, files and arguments become escapes', () => {
  const hostile = 'no\x1b[31m\x07\u202e';
  const shown = 'no\\x1b[31m\\x07\\u202e';
  expect(reportFailure(new RunError(hostile), false).text).toBe(`exec-server: ${shown}`);
  expect(reportFailure(new TypeError(hostile), true).text).not.toMatch(/[\x07\x1b\u202e]/);
  const json = reportFailure(new RunError(hostile), false, { exitCode: 125, json: true }).text;
  expect(JSON.parse(json).message).toBe(shown);
});

test('shows the stack of a bug only in debug mode', () => {
  const { text } = reportFailure(bug, true);
  expect(text).toBe(`exec-server: unexpected error: x is not a function\n${bug.stack}`);
  expect(reportFailure(new RunError('no'), true).text).toBe('exec-server: no');
});

describe('failures of a command that uses an environment', () => {
  test('have the exit code 125, unless the error has its own', () => {
    const style = { exitCode: 125, json: false };
    expect(reportFailure(new RunError('no'), false, style).exitCode).toBe(125);
    expect(reportFailure(new RunError('no', { exitCode: 127 }), false, style).exitCode).toBe(127);
    expect(reportFailure(new UsageError('no', 'run'), false, style).exitCode).toBe(2);
  });

  test('are JSON objects when they are for programs', () => {
    const style = { exitCode: 125, json: true };
    const json = (error: unknown) => JSON.parse(reportFailure(error, false, style).text);
    expect(json(new RunError("no process 'x'; 'exec-server ps' lists them", { kind: 'notFound' }))).toEqual({
      code: 'notFound',
      message: "no process 'x'",
      hint: "'exec-server ps' lists them",
    });
    expect(json(new UsageError('--x needs a value'))).toEqual({
      code: 'usage',
      message: '--x needs a value',
      hint: null,
    });
    expect(json(new TypeError('a bug')).code).toBe('unexpected');
  });
});
