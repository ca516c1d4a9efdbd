import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { waitFor } from '../support/wait-for.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

let folder: string;
let env: Record<string, string>;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'ci-templates-'));
  for (const name of ['bin', 'my work', 'temp', 'home']) mkdirSync(join(folder, name));
  symlinkSync(join(ROOT, 'dist/bin/exec-server.cjs'), join(folder, 'bin/exec-server'));
  env = { PATH: `${join(folder, 'bin')}:${process.env.PATH}`, HOME: join(folder, 'home') };
});
afterEach(() => rmSync(folder, { recursive: true }));

/** Runs a script as CI services do: bash that ends at the first failure. */
async function bash(script: string, environment: Readonly<Record<string, string>>) {
  const child = spawn('bash', ['--noprofile', '--norc', '-e', '-o', 'pipefail', '-c', script], {
    cwd: join(folder, 'my work'),
    env: environment,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const [stdout, stderr, [code]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close'),
  ]);
  return { code, stdout, stderr };
}

/** The server removes its pid file shortly before it ends. */
function hasEnded(pid: number): boolean {
  return !existsSync(`/proc/${pid}`);
}

describe('the GitHub action', () => {
  interface Step {
    readonly id?: string;
    readonly if: string;
    readonly shell: string;
    readonly run: string;
    readonly env?: Readonly<Record<string, string>>;
  }
  const action = parse(readFileSync(join(ROOT, 'action.yml'), 'utf8')) as {
    readonly inputs: Readonly<Record<string, { readonly default: string }>>;
    readonly outputs: Readonly<Record<string, { readonly value: string }>>;
    readonly runs: { readonly using: string; readonly steps: readonly Step[] };
  };

  beforeEach(() => {
    Object.assign(env, {
      RUNNER_TEMP: join(folder, 'temp'),
      GITHUB_WORKSPACE: join(folder, 'my work'),
      ...{ GITHUB_ENV: join(folder, 'env'), GITHUB_OUTPUT: join(folder, 'output') },
      GITHUB_PATH: join(folder, 'path'),
    });
    for (const file of [env.GITHUB_ENV!, env.GITHUB_OUTPUT!, env.GITHUB_PATH!]) writeFileSync(file, '');
  });

  /** Runs the step of a command with the exec-server on the PATH, and adds GITHUB_ENV to the environment of later steps. */
  async function use(inputs: Readonly<Record<string, string>>) {
    const command = inputs.command ?? action.inputs.command!.default;
    const result = await runStep(`inputs.command == '${command}'`, inputs);
    Object.assign(env, variables(env.GITHUB_ENV!));
    return result;
  }

  /** Runs the step with this condition. */
  async function runStep(condition: string, inputs: Readonly<Record<string, string>>) {
    const steps = action.runs.steps.filter((step) => step.if === condition);
    expect(steps).toHaveLength(1);
    const ownEnv = Object.entries(steps[0]!.env ?? {}).map(([name, expression]) => {
      const input = /^\$\{\{ inputs\.([a-z]+) \}\}$/.exec(expression)![1]!;
      return [name, inputs[input] ?? action.inputs[input]!.default];
    });
    return await bash(steps[0]!.run, { ...env, ...Object.fromEntries(ownEnv) });
  }

  const variables = (file: string): Record<string, string> =>
    Object.fromEntries(
      readFileSync(file, 'utf8')
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => line.split(/=(.*)/s).slice(0, 2)),
    );

  test('has steps that name their shell, and no expression inside a script', () => {
    expect(action.runs.using).toBe('composite');
    expect(action.runs.steps.map(({ shell }) => shell)).toEqual(['bash', 'bash', 'bash']);
    expect(action.runs.steps.filter(({ run }) => run.includes('${{'))).toEqual([]);
  });

  test('has the outputs that its step writes, and the inputs and outputs of the guide', () => {
    expect(action.runs.steps.flatMap(({ id }) => id ?? [])).toEqual(['start']);
    for (const [name, { value }] of Object.entries(action.outputs))
      expect(value).toBe(`\${{ steps.start.outputs.${name} }}`);

    const page = readFileSync(join(ROOT, 'docs/guides/ci.md'), 'utf8');
    const [, table] = /^\| input \| default \|.*\n\|[-|]+\n((?:\|.*\n)+)/m.exec(page)!;
    const rows = table!.matchAll(/^\| `(\w+)` \| (?:`(.*?)`|[\w ]+) \|/gm);
    expect(Array.from(rows, ([, name, value]) => [name, value ?? ''])).toEqual(
      Object.entries(action.inputs).map(([name, input]) => [name, input.default]),
    );
    const outputs = Object.keys(action.outputs).map((name) => `\`${name}\``);
    expect(page).toContain(`\nOutputs are ${outputs.join(' and ')}.`);
  });

  // npm run test:install installs each of them in a container.
  test.each([
    ['latest', 'exec-server@latest'],
    ['0.1.0', 'exec-server@0.1.0'],
    ['packed/exec-server.tgz', 'packed/exec-server.tgz'],
  ])('installs the version %s below RUNNER_TEMP', async (version, operand) => {
    const npm = join(folder, 'bin/npm');
    writeFileSync(npm, '#!/bin/sh\nprintf "%s\\n" "$@"\n', { mode: 0o755 });
    mkdirSync(join(folder, 'my work/packed'));
    writeFileSync(join(folder, 'my work/packed/exec-server.tgz'), '');
    const { code, stdout } = await runStep("inputs.command == 'start' && inputs.version != ''", { version });
    expect(code).toBe(0);
    const prefix = join(folder, 'temp/exec-server-npm');
    const packaged = operand.endsWith('.tgz') ? join(realpathSync(folder), 'my work', operand) : operand;
    const words = stdout.trim().split('\n');
    expect(words).toEqual(
      expect.arrayContaining(['install', '--global', '--prefix', prefix, '--ignore-scripts']),
    );
    expect(words.at(-1)).toBe(packaged);
    expect(readFileSync(env.GITHUB_PATH!, 'utf8')).toBe(`${prefix}/bin\n`);
  });

  test('starts one server for all later steps, with a token, and stops it', async () => {
    expect(await use({})).toEqual({
      code: 0,
      stdout: expect.stringMatching(/^::add-mask::[\w-]{43}\n$/),
      stderr: expect.stringContaining('sha256: '),
    });
    const outputs = variables(env.GITHUB_OUTPUT!);
    expect(outputs).toEqual({ url: env.EXEC_SERVER_URL, log: join(env.EXEC_SERVER_STATE!, 'log') });
    expect(readFileSync(outputs.log!, 'utf8')).toContain(`${outputs.url}\n`);
    const server = readFileSync(join(env.EXEC_SERVER_STATE!, 'pid'), 'utf8');
    const step =
      'exec-server run -- sh -c \'echo "$PPID"; env | grep -cF "$0" || true\' "$EXEC_SERVER_TOKEN"';
    expect(await bash(step, env)).toEqual({ code: 0, stdout: `${server}0\n`, stderr: '' });
    const wrong = await bash('exec-server run -- true', { ...env, EXEC_SERVER_TOKEN: 'wrong' });
    expect([wrong.code, wrong.stderr]).toEqual([125, expect.stringContaining('401')]);

    expect(await use({ command: 'stop' })).toMatchObject({ code: 0, stderr: '' });
    await waitFor('the end of the server', () => hasEnded(Number(server)));
    expect(readdirSync(join(folder, 'temp'))).toEqual([]);
    expect(await use({ command: 'stop' })).toMatchObject({ code: 0, stdout: 'exec-server does not run\n' });
  });

  test('starts a server on a unix socket whose programs are all confined', async () => {
    const listen = `unix://${folder}/socket`;
    expect(await use({ listen, sandbox: 'workspace-write' })).toEqual({ code: 0, stdout: '', stderr: '' });
    expect(env.EXEC_SERVER_TOKEN).toBeUndefined();
    const step = 'exec-server run -- sh -c "touch file && touch /var/tmp/ci-templates"';
    const { code, stderr } = await bash(step, env);
    expect([code, stderr]).toEqual([
      1,
      "touch: cannot touch '/var/tmp/ci-templates': Read-only file system\n",
    ]);
    expect(await use({ command: 'stop' })).toMatchObject({ code: 0 });
  });

  test('passes the options of all lines, and prints the log of a server that was killed', async () => {
    const listen = `unix://${folder}/socket`;
    const args = '--log-level info\n--max-sessions 5\n';
    expect(await use({ listen, args })).toMatchObject({ code: 0, stderr: '' });
    const pid = Number(readFileSync(join(env.EXEC_SERVER_STATE!, 'pid'), 'utf8'));
    const words = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0');
    expect(words.slice(-5)).toEqual(['--log-level', 'info', '--max-sessions', '5', '']);
    process.kill(pid, 'SIGKILL');
    await waitFor('the end of the server', () => hasEnded(pid));
    expect(await use({ command: 'stop' })).toEqual({
      code: 0,
      stdout: expect.stringMatching(/^exec-server had already ended; this is its log:\n(.*\n)?unix:/),
      stderr: '',
    });
    expect(readdirSync(join(folder, 'temp'))).toEqual([]);
  });

  test('prints the log of a server that has ended by itself', async () => {
    expect(await use({ listen: `unix://${folder}/socket` })).toMatchObject({ code: 0 });
    const pidFile = join(env.EXEC_SERVER_STATE!, 'pid');
    process.kill(Number(readFileSync(pidFile, 'utf8')), 'SIGTERM');
    await waitFor('the end of the server', () => !existsSync(pidFile));
    expect(await use({ command: 'stop' })).toEqual({
      code: 0,
      stdout: expect.stringMatching(/^exec-server had already ended; this is its log:\n(.*\n)?unix:/),
      stderr: '',
    });
    expect(readdirSync(join(folder, 'temp'))).toEqual([]);
  });

  test('refuses a token that GITHUB_ENV cannot hold', async () => {
    expect(await use({ token: 'two\nlines' })).toEqual({
      code: 1,
      stdout: '',
      stderr: 'the token contains white space\n',
    });
  });

  test('fails with the reason when the server cannot start', async () => {
    expect(await use({ args: '--max-sessions 5 --no-such-flag' })).toMatchObject({
      code: 1,
      stderr: expect.stringContaining('--no-such-flag'),
    });
    expect(env.EXEC_SERVER_URL).toBeUndefined();
  });

  test('fails with the report of doctor when programs cannot be confined', async () => {
    env.EXEC_SERVER_BWRAP_PATH = '/no/bwrap';
    const { code, stderr } = await use({ sandbox: 'read-only' });
    expect([code, stderr]).toEqual([1, expect.stringContaining('/no/bwrap')]);
    expect(env.EXEC_SERVER_URL).toBeUndefined();
  });
});

describe('the GitLab template', () => {
  const template = parse(readFileSync(join(ROOT, 'deploy/gitlab/exec-server.yml'), 'utf8'))[
    '.exec-server'
  ] as {
    readonly before_script: readonly string[];
    readonly after_script: readonly string[];
  };

  /** Runs a job: before_script and script in one shell, after_script in another. */
  async function job(script: string, variables: Readonly<Record<string, string>> = {}) {
    const jobEnv = {
      ...env,
      CI_JOB_ID: String(process.pid),
      EXEC_SERVER_VERSION: '',
      EXEC_SERVER_OPTIONS: '',
      ...variables,
    };
    const result = await bash([...template.before_script, script].join('\n'), jobEnv);
    const after = await bash(template.after_script.join('\n'), jobEnv);
    expect(after).toMatchObject({ code: 0, stderr: '' });
    return { ...result, after: after.stdout };
  }

  test('gives a job a server, and stops it after a failure too', async () => {
    const script = 'exec-server run -- sh -c \'echo "$PPID"; exit 7\'';
    const { code, stdout, stderr, after } = await job(script);
    expect({ code, stderr }).toEqual({ code: 7, stderr: '' });
    expect(after).not.toContain('warning');
    await waitFor('the end of the server', () => hasEnded(Number(stdout)));
    expect(readdirSync(tmpdir())).not.toContain(`exec-server-job-${process.pid}`);
  });

  test('ends a job whose server cannot start with the reason', async () => {
    const { code, stdout, stderr } = await job('echo unreachable', { EXEC_SERVER_OPTIONS: '--no-such-flag' });
    expect([code, stdout, stderr]).toEqual([1, '', expect.stringContaining('--no-such-flag')]);
  });

  test('prints the log of a server that was killed', async () => {
    const script = 'kill -9 "$server"; wait "$server" || echo "ended $?"';
    const { stdout, after } = await job(script);
    expect(stdout).toBe('ended 137\n');
    expect(after).toMatch(/^exec-server had already ended; this is its log:\n(.*\n)?unix:/);
  });
});
