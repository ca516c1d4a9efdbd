import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { expect, test } from 'vitest';

const CHECKS = join(import.meta.dirname, '../../../scripts/checks.sh');

function run(line: string) {
  const { status, stdout } = spawnSync('sh', ['-eu', '-c', `. "$0"\n${line}\necho next`, CHECKS], {
    encoding: 'utf8',
  });
  return { status, stdout };
}

test.each([
  ["check 'a name' 'wor' echo words", 'a name'],
  ["exits 'a name' 7 'wor' sh -c 'echo words >&2; exit 7'", 'a name'],
])('accepts the expected output and exit code: %s', (line, name) => {
  expect(run(line)).toEqual({ status: 0, stdout: `ok ${name}\nnext\n` });
});

test.each([
  [
    'a program that prints the pattern and then fails',
    "check x 'wor' sh -c 'echo words; exit 3'",
    'exit code 3 instead of 0',
  ],
  [
    'a program that a signal ends',
    "check x 'wor' sh -c 'echo words; kill -9 $$'",
    'exit code 137 instead of 0',
  ],
  ['another exit code', "exits x 7 'wor' sh -c 'echo words; exit 3'", 'exit code 3 instead of 7'],
  ['a program that should fail', "exits x 7 'wor' echo words", 'exit code 0 instead of 7'],
  ['other output', "check x 'wor' echo other", 'expected "wor" in:\nother'],
])('fails for %s', (_name, line, message) => {
  const { status, stdout } = run(line);
  expect([status, stdout]).toEqual([1, expect.stringContaining(message)]);
});
