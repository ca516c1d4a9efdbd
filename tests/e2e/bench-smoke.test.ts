import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';
import { expect, onTestFinished, test } from 'vitest';
import { chromiumMissing } from '../support/chromium-program.mjs';
import { isAlive, processesWith } from '../support/machine.ts';
import { waitFor } from '../support/wait-for.ts';

const ROOT = resolve(import.meta.dirname, '../..');

/** Half a minute, and longer beside the other tests on a busy machine. */
const TIMEOUT_MS = 240_000;

/** Every workload, in the order of the table. */
const ALL = [
  'integrity',
  'startup-launcher',
  'startup-native',
  'idle-rss',
  'idle-connections',
  'live-processes',
  'live-terminals',
  'fresh-status',
  'fresh-read',
  'fresh-write',
  'fresh-start',
  'fresh-50-connections',
  'connect-rate',
  'request-rtt',
  'request-pipelined',
  'request-50-connections',
  'start-pipe',
  'start-tty',
  'start-32',
  'shell-snapshot',
  'pipe-512mb',
  'seq-2m',
  'lines-200k',
  'pipes-16x32mb',
  'tty-128mb',
  'echo-idle',
  'echo-flood',
  'screen',
  'stalled-client',
  'viewers',
  'terminate-500',
  'files-read-1kb',
  'files-read-1mb',
  'files-read-100mb',
  'files-write-1kb',
  'files-write-1mb',
  'files-write-10mb',
  'files-write-40mb',
  'files-blocks-1gb',
  'files-blocks-4x256mb',
  'files-blocks-write-256mb',
  'files-directory-10k',
  'files-walk-31k',
  'files-metadata-1000',
  'sandbox-start',
  'sandbox-write',
  'agent-tools',
  'mcp-command',
  'mcp-startup',
  'tcp-stream',
  'tcp-echo',
  'relay-stream',
  'relay-echo',
  'relay-handshakes',
  'relay-idle',
  'command-run',
  'command-stream',
  'command-copy',
  'command-copy-back',
  'console-open',
  'console-flood',
  'console-rows',
  'growth-starts',
  'growth-connections',
  'growth-processes',
];

/** One workload of each part of the benchmark. `npm run bench -- --quick --a none` runs all of them. */
const SAMPLE = [
  'integrity',
  'startup-native',
  'request-pipelined',
  'start-tty',
  'lines-200k',
  'echo-flood',
  'screen',
  'files-write-1kb',
  'sandbox-start',
  'mcp-command',
  'tcp-echo',
  'relay-handshakes',
  ...(existsSync('/usr/sbin/sshd') ? ['command-run'] : []),
  ...(chromiumMissing() === null ? ['console-open'] : []),
];

interface Row {
  readonly workload: string;
  readonly key: string;
  readonly b: { readonly median: number | null; readonly failure: string | null };
}

test(
  'the benchmark has every workload, and runs workloads of each kind against this build',
  async () => {
    const { stdout } = await promisify(execFile)(process.execPath, ['bench/run.mjs', '--list'], {
      cwd: ROOT,
    });
    expect(
      stdout
        .trim()
        .split('\n')
        .map((line) => line.split(':')[0]),
    ).toEqual(ALL);
    const { rows, code } = await bench('--quick', '--a', 'none', '--only', SAMPLE.join(','));
    expect([...new Set(rows.map((row) => row.workload))]).toEqual(SAMPLE);
    for (const row of rows) {
      expect(row, `${row.workload} ${row.key}`).toMatchObject({
        b: { median: expect.any(Number), failure: null },
      });
    }
    expect(code).toBe(0);
  },
  TIMEOUT_MS,
);

test('a server that loses output fails the row', async () => {
  const silent = `${process.execPath} bench/replay-server.mjs 8192`;
  const { rows, code } = await bench('--quick', '--a', 'none', '--b', silent, '--only', 'pipe-512mb,lines');
  const failures = new Map(rows.map((row) => [row.workload, row.b.failure]));
  expect(failures.get('pipe-512mb')).toBeNull();
  expect(failures.get('lines-200k')).toMatch(/0 bytes of 800000 arrived/);
  expect(code).toBe(1);
});

test('a server without file operations fails their rows', async () => {
  const idle = `${process.execPath} bench/replay-server.mjs 8192`;
  const { rows, code } = await bench('--quick', '--a', 'none', '--b', idle, '--only', 'files-');
  for (const row of rows) {
    expect(row, `${row.workload} ${row.key}`).toMatchObject({ b: { failure: expect.any(String) } });
  }
  expect(code).toBe(1);
});

test('rows that compare with ssh are left out where there is none, and a line says so', async () => {
  const { rows, code, stderr } = await bench('--quick', '--a', 'none', '--only', 'command-', {
    PATH: '/none',
  });
  expect({ rows, code }).toEqual({ rows: [], code: 0 });
  const names = ['command-run', 'command-stream', 'command-copy', 'command-copy-back'];
  expect(stderr.match(/^command-.*$/gm)).toEqual(
    names.map((name) => expect.stringMatching(new RegExp(`^${name}: left out: .*; install openssh-`))),
  );
});

test.skipIf(!existsSync('/usr/sbin/sshd'))(
  'ends its programs and removes its files on a signal',
  async () => {
    const work = mkdtempSync(join(tmpdir(), 'bench-work-'));
    onTestFinished(() => rmSync(work, { recursive: true, force: true }));
    const flags = ['--a', 'none', '--only', 'command-stream', '--work', work];
    const run = spawn(process.execPath, ['bench/run.mjs', ...flags], { cwd: ROOT, stdio: 'ignore' });
    const ended = once(run, 'exit');
    const find = (end: string) =>
      readdirSync(work, { recursive: true, encoding: 'utf8' }).find((name) => name.endsWith(end));
    await waitFor('the shared connection of ssh', () => find('/control'));
    const { pid } = JSON.parse(readFileSync(join(work, find('/server.json')!), 'utf8'));
    expect(isAlive(pid)).toBe(true);
    run.kill('SIGTERM');
    expect(await ended).toEqual([130, null]);
    await waitFor('its programs to end', () => processesWith(work).length === 0 && !isAlive(pid));
    expect(readdirSync(work)).toEqual([]);
  },
);

interface BenchRun {
  readonly rows: readonly Row[];
  readonly code: number;
  readonly stderr: string;
}

/** Runs the benchmark. The last argument may be variables that replace those of the environment. */
async function bench(...options: (string | { readonly PATH: string })[]): Promise<BenchRun> {
  const flags = options.filter((option) => typeof option === 'string');
  const env = Object.assign({ ...process.env }, ...options.filter((option) => typeof option === 'object'));
  const run = promisify(execFile)(process.execPath, ['bench/run.mjs', '--json', ...flags], {
    cwd: ROOT,
    env,
    timeout: TIMEOUT_MS,
  });
  const { stdout, stderr, code } = await run.then(
    (printed) => ({ ...printed, code: 0 }),
    (error: { stdout: string; stderr: string; code: number }) => error,
  );
  // Without a report the benchmark itself has failed, and stderr says why.
  if (stdout === '') throw new Error(`bench/run.mjs ${flags.join(' ')} exited with ${code}:\n${stderr}`);
  return { rows: JSON.parse(stdout).rows, code, stderr };
}
