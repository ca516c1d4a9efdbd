import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';

const SCRIPT = fileURLToPath(new URL('../../examples/ci.sh', import.meta.url));
const BIN = fileURLToPath(new URL('../../dist/bin/exec-server.cjs', import.meta.url));

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'ci-example-'));
  for (const name of ['bin', 'work', 'tmp', 'home']) mkdirSync(join(folder, name));
  symlinkSync(BIN, join(folder, 'bin/exec-server'));
});
afterEach(() => rmSync(folder, { recursive: true }));

/** Runs the example. Afterwards its server has ended, and nothing is left of it. */
async function job(steps: Readonly<Record<string, string>> = {}) {
  const child = spawn('bash', [SCRIPT], {
    cwd: join(folder, 'work'),
    env: {
      PATH: `${join(folder, 'bin')}:${process.env.PATH}`,
      ...{ HOME: join(folder, 'home'), TMPDIR: join(folder, 'tmp') },
      ...steps,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const [stdout, stderr, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close'),
  ]);
  expect(readdirSync(join(folder, 'tmp'))).toEqual([]);
  return { code, stdout, stderr };
}

test('runs three steps in a row and two at the same time on one server', async () => {
  // Each of the two waits for the other.
  const meet = (own: string, other: string) =>
    `echo $PPID >${own}; until [ -s ${other} ]; do sleep 0.01; done; cmp ${own} ${other} && echo "same server"`;
  const { code, stdout, stderr } = await job({ TESTS: meet('one', 'two'), LINT: meet('two', 'one') });
  expect({ code, stderr }).toEqual({ code: 0, stderr: '' });
  expect(stdout).toBe(
    '== checkout\n== build\n== package\nHELLO\n== tests\nsame server\n== lint\nsame server\n',
  );
});

test.each([
  ['a step', { BUILD: 'echo broken >&2; exit 7' }, 7, '== checkout\n== build\n', 'broken\n'],
  [
    'a parallel step',
    { LINT: 'echo bad; exit 9' },
    9,
    '== checkout\n== build\n== package\nHELLO\n== tests\n1\n== lint\nbad\n',
    '',
  ],
])(
  'ends with the exit code of %s that fails, and with all output',
  async (_name, steps, code, stdout, stderr) => {
    expect(await job(steps)).toEqual({ code, stdout, stderr });
  },
);
