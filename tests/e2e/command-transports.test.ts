import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { CONFIG_OPTIONS } from '../../src/server/config/config.ts';
import { formatConfigValue } from '../../src/server/config/values.ts';
import { Certificates } from '../support/certificates.ts';
import { answerOf, startForward } from '../support/port-forward.ts';
import { CommandUser } from '../support/private-server.ts';
import { ENVIRONMENT, type RunningProgram, startExecutorProgram, TestRelay } from '../support/relay.ts';
import { echoPeer } from '../support/tcp-peers.ts';
import { waitFor } from '../support/wait-for.ts';
import { CLI, type CliRun, firstLine } from '../unit/cli/run-cli.ts';

// The same commands over each transport, with exit codes. ssh has the same in ssh-environment.test.ts.

const SECURE = 'TLS with a token';
const user = new CommandUser();
const certificates = new Certificates();
/** Flags and variables that lead to each environment. */
const environments: Record<string, { flags: string[]; env: Record<string, string> }> = {
  'the private server': { flags: ['-E', 'local'], env: {} },
};
let secure: CliRun;
let relay: TestRelay;
let executor: RunningProgram;

/** Every setting as a flag, with the value that it has anyway, except those that are given. */
function settingFlags(given: Readonly<Record<string, string>>): string[] {
  return CONFIG_OPTIONS.flatMap((option) => {
    const { flag, type } = option;
    if (type === 'boolean') return option.default ? [flag] : [`--no-${flag.slice(2)}`];
    return [`${flag}=${given[flag] ?? formatConfigValue(option, option.default)}`];
  });
}

/** Every switch the other way, without those that need more than a flag, or refuse what the commands below do. */
const OPPOSITES = CONFIG_OPTIONS.flatMap(({ flag, type, default: value }) => {
  const isLeftOut = ['--console', '--otel', '--allow-direct-exec', '--http-private-addresses'].includes(flag);
  if (type !== 'boolean' || isLeftOut) return [];
  return value ? [`--no-${flag.slice(2)}`] : [flag];
});
/** Flags of codex that have no effect here. */
const IGNORED = [
  ...['--enable', 'one', '--disable', 'two', '--linux-sandbox-pid-namespace', 'isolate'],
  '--proxy-private-ips-via-upstream',
];

beforeAll(async () => {
  const authority = certificates.authority('authority');
  const { cert, key } = certificates.signedBy(authority, 'server');
  const secret = user.workspace.file('secret', 'a secret of more than thirty-two bytes');
  secure = user.start([
    ...['serve', '--strict-config'],
    ...settingFlags({
      ...{ '--listen': 'wss://127.0.0.1:0', '--tls-cert': cert, '--tls-key': key },
      ...{ '--ws-auth': 'signed-bearer-token', '--ws-shared-secret-file': secret },
      ...{ '--ws-issuer': 'us', '--ws-audience': 'them', '--environment-id': 'box' },
      '--log-level': 'error',
      '--record-dir': join(user.workspace.path, 'recordings'),
      '--audit-log': join(user.workspace.path, 'audit.jsonl'),
      '--metrics-listen': '127.0.0.1:0',
    }),
  ]);
  const url = await firstLine(secure);
  const claims = ['--subject', 'ana', '--issuer', 'us', '--audience', 'them', '--environment', 'box'];
  const rights = ['--scope', 'exec,files,net,observe', '--expires-in', '10m', '--id', 'one'];
  const token = ['token', 'signed', '--secret-file', secret, ...claims, ...rights, '--out', 'token'];
  expect(await user.run(token)).toMatchObject({ code: 0 });
  environments[SECURE] = {
    flags: ['-E', url, '--token-file', 'token'],
    env: { SSL_CERT_FILE: authority.cert },
  };

  relay = await TestRelay.open();
  executor = startExecutorProgram(relay, [...OPPOSITES, ...IGNORED]);
  await waitFor('the executor', () => executor.stderr().includes('connected to'));
  const harness = user.workspace.file('relay.token', relay.token('harness'));
  const add = ['env', 'add', 'behind', relay.harnessUrl, '--token-file', harness];
  expect(await user.run([...add, '--environment-id', ENVIRONMENT])).toMatchObject({ code: 0 });
  environments['a relay'] = { flags: ['-E', 'behind'], env: {} };
});

afterAll(async () => {
  await executor?.stop();
  await relay?.close();
  secure?.child.kill('SIGTERM');
  expect(await secure?.outcome).toMatchObject({ code: 0, stderr: '' });
  await user.close();
  certificates.remove();
});

const start = (name: string, command: string, ...args: string[]) =>
  user.start([command, ...environments[name]!.flags, ...args], environments[name]!.env);
const runOver = (name: string, command: string, ...args: string[]) =>
  user.run([command, ...environments[name]!.flags, ...args], environments[name]!.env);

describe.each(['the private server', SECURE, 'a relay'])('over %s', (name) => {
  const run = (command: string, ...args: string[]) => runOver(name, command, ...args);

  test('programs run, and are listed and shown', async () => {
    const failing = await run('run', '-n', '--', 'sh', '-c', 'echo out; echo err >&2; exit 3');
    expect(failing).toEqual({ code: 3, signal: null, stdout: 'out\n', stderr: 'err\n' });
    const job = await run(
      'run',
      '-d',
      '-i',
      '--name',
      'job',
      '--record',
      'sh',
      '-c',
      'echo one; cat; exit 4',
    );
    expect(job).toMatchObject({ code: 0, stderr: '' });
    const listed = await run('ps', '--json');
    expect(JSON.parse(listed.stdout)).toMatchObject([
      { ref: job.stdout.trim(), name: 'job', state: 'running' },
    ]);
    const attached = start(name, 'attach', 'job');
    attached.child.stdin.end('two\n');
    expect(await attached.outcome).toMatchObject({ code: 4, stdout: 'one\ntwo\n', stderr: '' });
  });

  test('files are copied both ways', async () => {
    const there = join(user.workspace.path, `there-${name}`);
    user.workspace.file('file', name);
    expect(await run('cp', '-q', '-p', 'file', `:${there}`)).toMatchObject({ code: 0, stderr: '' });
    expect(await run('cp', `:${there}`, 'back')).toMatchObject({ code: 0 });
    expect(readFileSync(join(user.workspace.path, 'back'), 'utf8')).toBe(name);
  });

  test('ports are forwarded', async () => {
    const peer = await echoPeer();
    const { flags, env } = environments[name]!;
    const args = [...flags, '--reconnect-timeout', '1m', `0:${peer.port}`];
    const forward = await startForward(user, args, { env });
    expect(await answerOf(forward.ports[0]!, name)).toBe(name);
    expect(await forward.stop()).toBe(0);
  });
});

describe(`over ${SECURE}`, () => {
  const run = (command: string, ...args: string[]) => runOver(SECURE, command, ...args);

  /** Starts a command on a terminal, which the private server provides. */
  const startOnTerminal = async (command: string, ...args: string[]) => {
    const { flags, env } = environments[SECURE]!;
    const program = [process.execPath, CLI, command, ...flags, ...args];
    const started = await user.run(['run', '-d', '-t', '-i', '--', ...program], env);
    expect(started).toMatchObject({ code: 0 });
    return started.stdout.trim();
  };

  test('every other command works', async () => {
    const text = 'one\ntwo\n';
    expect(await run('wait', 'job')).toMatchObject({ code: 4 });
    expect(await run('logs', 'job')).toMatchObject({ code: 0, stdout: text });
    const recordings = await run('recordings', '--json', '--all-owners');
    expect(JSON.parse(recordings.stdout)).toContainEqual(
      expect.objectContaining({ name: 'job', owner: 'ana' }),
    );
    expect(await run('export', '--txt', 'job')).toMatchObject({ code: 0, stdout: text });
    const player = await startOnTerminal('play', '--speed', '100', 'job');
    expect(await user.run(['wait', player])).toMatchObject({ code: 0 });
    expect(await user.run(['logs', player])).toMatchObject({ stdout: 'one\r\ntwo\r\n' });
    expect(await run('kill', 'job')).toMatchObject({ code: 125 });
    expect(await run('rm', 'job')).toMatchObject({ code: 0, stderr: '' });
    expect(await run('sync', certificates.folder, `:${join(user.workspace.path, 'synced')}`)).toMatchObject({
      code: 0,
    });
    expect(await run('env', 'test')).toMatchObject({ code: 0 });
  });

  test('a shell opens, and ends with its exit code', async () => {
    const shell = await startOnTerminal('shell');
    const keys = user.start(['attach', shell]);
    keys.child.stdin.write('exit 5\n');
    expect(await keys.outcome).toMatchObject({ code: 5 });
  });
});
