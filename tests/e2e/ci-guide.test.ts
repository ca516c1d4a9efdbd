import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { docBlocks } from '../../scripts/doc-blocks.mjs';

// The page itself runs in docs.test.ts. These tests show what its output does not: one server, and failures.

const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const BIN = join(ROOT, 'dist/bin/exec-server.cjs');
let folder: string;
let server: ChildProcess | null = null;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'ci-guide-'));
  for (const name of ['step.mjs', 'ci.sh']) writeFileSync(join(folder, name), block(name));
  mkdirSync(join(folder, 'node_modules'));
  symlinkSync(ROOT, join(folder, 'node_modules', 'exec-server'));
  mkdirSync(join(folder, 'bin'));
  writeFileSync(join(folder, 'bin/exec-server'), `#!/bin/sh\nexec ${process.execPath} ${BIN} "$@"\n`, {
    mode: 0o755,
  });
});

afterEach(async () => {
  if (server !== null && server.exitCode === null && server.signalCode === null) {
    server.kill('SIGTERM');
    await once(server, 'exit');
  }
  server = null;
  rmSync(folder, { recursive: true });
});

/** The file that the guide shows under this name. */
function block(name: string): string {
  return docBlocks('docs/guides/ci.md').find(({ flags }) => flags.includes(`file=${name}`))!.text;
}

function start(program: string, ...args: string[]): ChildProcess {
  const env = { ...process.env, PATH: `${join(folder, 'bin')}:${process.env.PATH}` };
  return spawn(program, args, { cwd: folder, env, stdio: ['ignore', 'pipe', 'pipe'] });
}

async function finish(child: ChildProcess) {
  let [stdout, stderr] = ['', ''];
  child.stdout!.on('data', (bytes) => (stdout += bytes));
  child.stderr!.on('data', (bytes) => (stderr += bytes));
  const [code] = await once(child, 'close');
  return { code, stdout, stderr };
}

const step = (script: string) => finish(start(process.execPath, 'step.mjs', 'sh', '-c', script));

test('three steps in a row and two in parallel run on one server, which ends by its pid file', async () => {
  server = start('exec-server', '--url-file', 'server.url', '--pid-file', 'server.pid');
  await once(server.stdout!, 'data');
  const ended = once(server, 'exit');
  const pid = readFileSync(join(folder, 'server.pid'), 'utf8');
  const results = [await step('echo $PPID'), await step('echo $PPID'), await step('echo $PPID')];
  results.push(...(await Promise.all([step('echo $PPID'), step('echo $PPID')])));
  expect(results).toEqual(Array(5).fill({ code: 0, stdout: pid, stderr: '' }));
  expect(await step('echo broken >&2; exit 7')).toEqual({ code: 7, stdout: '', stderr: 'broken\n' });
  expect((await step('echo $PPID')).stdout).toBe(pid);

  process.kill(Number(pid), 'SIGTERM');
  expect(await ended).toEqual([0, null]);
  expect(['server.url', 'server.pid'].filter((name) => existsSync(join(folder, name)))).toEqual([]);
});

test.each([
  ['a step', 'cat product\n\nnode step.mjs', "sh -c 'exit 7'\n\nnode step.mjs", 7],
  ['a parallel step', 'grep -c HELLO product', "sh -c 'exit 9'", 9],
])(
  'the script ends with the exit code of %s that fails, and stops its server',
  async (_name, from, to, code) => {
    const script = block('ci.sh').replace(from, to);
    expect(script).not.toBe(block('ci.sh'));
    writeFileSync(join(folder, 'ci.sh'), script);
    const result = await finish(start('bash', 'ci.sh'));
    expect(result).toMatchObject({ code, stdout: expect.stringContaining('built\n') });
    expect(result.stdout).not.toContain('1 product');
    expect(['server.url', 'server.pid'].filter((name) => existsSync(join(folder, name)))).toEqual([]);
  },
);

test('the script ends when the server cannot start', async () => {
  writeFileSync(join(folder, 'ci.sh'), block('ci.sh').replace('--url-file', '--no-such-flag --url-file'));
  const { code, stdout } = await finish(start('bash', 'ci.sh'));
  expect([code, stdout]).toEqual([expect.any(Number), '']);
  expect(code).not.toBe(0);
  expect(readFileSync(join(folder, 'server.log'), 'utf8')).toContain('no-such-flag');
});
