import { afterAll, describe, expect, test } from 'vitest';
import { parseDuration } from '../../../src/cli/duration.ts';
import { exitCodeOf } from '../../../src/cli/programs/exit-codes.ts';
import { signalName } from '../../../src/cli/programs/kill.ts';
import { ageText } from '../../../src/cli/programs/ps.ts';
import { Workspace } from './run-cli.ts';

const workspace = new Workspace();
afterAll(() => workspace.close());

test.each<[string[], string]>([
  [['logs'], "logs: name a process by its reference or name; 'exec-server ps' lists them"],
  [['wait'], "wait: name a process by its reference or name; 'exec-server ps' lists them"],
  [['logs', 'a', 'b'], "logs: unexpected argument 'b'; name one process"],
  [['logs', '--tail', '-1', 'x'], "logs: --tail '-1' is not a whole number"],
  [['logs', '--since-seq', '1e400', 'x'], "logs: --since-seq '1e400' is not a whole number"],
  [['logs', '--tail', '1', '--since-seq', '1', 'x'], 'logs: --tail and --since-seq exclude each other'],
  [['kill', '-s', 'TERMM', 'x'], "kill: unknown signal 'TERMM'; did you mean 'TERM'?"],
  [['kill', '-s', 'SIGTREM', 'x'], "kill: unknown signal 'SIGTREM'; did you mean 'TERM'?"],
  ...['0', 'FOO', 'SIGFOO'].map((signal): [string[], string] => [
    ['kill', '-s', signal, 'x'],
    `kill: unknown signal '${signal}'; write a name such as TERM, HUP or USR1, or a number`,
  ]),
  [['run', '-E', 'nosuch', 'x'], "run: unknown environment 'nosuch' (-E); 'exec-server env ls' lists them"],
  [
    ['cp', 'nosuch:x', '.'],
    "cp: unknown environment 'nosuch' (the path 'nosuch:x'); 'exec-server env ls' lists them",
  ],
  [['sync', '.', 'nosuch:x'], "sync: unknown environment 'nosuch' (the path 'nosuch:x')"],
  [['run', '-e', 'A B=1', 'x'], "run: -e: 'A B' is not the name of a variable; it has no spaces: NAME=VALUE"],
  [['shell', '--', 'ls'], "shell: unexpected argument 'ls'; 'exec-server run' runs a program"],
  [['env', '--', 'list'], "env: expected ls, add, test or rm, not 'list'"],
  [['wait', '--timeout', '5', 'x'], "wait: --timeout '5' is not a time; write it like 500ms, 90s, 10m or 2h"],
  [['ps', 'x'], "ps: unexpected argument 'x'"],
  [['rm', '--all', 'x'], "rm: unknown flag '--all'"],
])('%j is bad usage', async (argv, message) => {
  expect(await workspace.runHere(argv)).toMatchObject({
    code: 2,
    stderr: expect.stringContaining(`exec-server ${message}`),
  });
});

test.each(['TERM', 'SIGTERM', 'sigterm', 'term', '15'])('%s is a name of SIGTERM', (text) => {
  expect(signalName(text)).toBe('SIGTERM');
});

describe('times', () => {
  test.each([
    ['500ms', 500],
    ['1.5s', 1_500],
    ['10m', 600_000],
    ['2h', 7_200_000],
    ['24d', 2_073_600_000],
  ])('%s is %i ms', (text, ms) => {
    expect(parseDuration(text, '--timeout', 'wait')).toBe(ms);
  });

  test.each(['', '5', 's', '-1s', '1e3s', '0s', '1w', '25d', '10000h', 'Infinitys'])(
    '%j is refused',
    (text) => {
      expect(() => parseDuration(text, '--timeout', 'wait')).toThrow('is not a time');
    },
  );

  test.each([
    [-5_000, '0s'],
    [59_999, '59s'],
    [60_000, '1m'],
    [3_600_000, '1h'],
    [47 * 3_600_000, '47h'],
    [49 * 3_600_000, '2d'],
  ])('an age of %i ms is %s', (ms, text) => {
    expect(ageText(ms)).toBe(text);
  });
});

test('a program that a limit ended has the exit code 124', () => {
  expect(exitCodeOf({ exitCode: 137, reason: 'oom' })).toBe(124);
  expect(exitCodeOf({ exitCode: 137 })).toBe(137);
});
