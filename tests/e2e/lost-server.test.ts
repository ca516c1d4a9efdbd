import { mkdirSync, readdirSync, readFileSync, truncateSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startServer, TcpProxy, type TestServer } from '../../src/testing/index.ts';
import { collect, type Printed } from '../support/collect.ts';
import { MessageProxy } from '../support/message-proxy.ts';
import { CommandUser } from '../support/private-server.ts';
import { ENVIRONMENT, type RunningProgram, startExecutorProgram, TestRelay } from '../support/relay.ts';
import { SshMachine } from '../support/ssh-machine.ts';
import { sshMissing } from '../support/sshd.mjs';
import { waitFor } from '../support/wait-for.ts';
import type { CliRun, Outcome } from '../unit/cli/run-cli.ts';

// Every command loses its server at the same time, because each of them waits for it for 25 s.

const MIB = 1024 * 1024;
const HAS_SSH = sshMissing() === null;
const user = new CommandUser();
const at = (name: string) => join(user.workspace.path, name);
let server: TestServer;
/** Drops the blocks of files, so that a copy never ends. */
let messages: MessageProxy;
let dropsBlocks = true;
/** Blocks that each connection has sent. */
const blocks = new Map<number, number>();
const PASSED_BLOCKS = 10;
let proxy: TcpProxy;
let relay: TestRelay;
let executor: RunningProgram;
let machine: SshMachine;
const outcomes = new Map<string, Promise<Outcome>>();

function start(name: string, args: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const run = user.start(args, env);
  outcomes.set(name, run.outcome);
  return { ...run, printed: collect(run) };
}

const detached = async (environment: string, env: Readonly<Record<string, string>> = {}) => {
  const { code, stdout, stderr } = await user.run(
    ['run', '-E', environment, '-d', '--name', 'job', '--', 'sh', '-c', 'echo started; exec sleep 1000'],
    env,
  );
  if (code !== 0) throw new Error(stderr);
  return stdout.trim();
};

async function hasStarted({ printed }: { readonly printed: Printed }): Promise<void> {
  await waitFor('its output', () => printed.stdout === 'started\n');
}

/** Ends the ssh that a command has started. */
function killSsh({ child }: CliRun): void {
  const pid = readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8').trim();
  process.kill(Number(pid), 'SIGKILL');
}

beforeAll(async () => {
  server = await startServer();
  messages = await MessageProxy.open(server.url, ({ text, connection }) => {
    if (!dropsBlocks || !text.slice(0, 200).includes('"fs/writeBlock"')) return 'pass';
    const count = blocks.get(connection) ?? 0;
    blocks.set(connection, count + 1);
    return count < PASSED_BLOCKS ? 'pass' : 'drop';
  });
  proxy = await TcpProxy.open(messages.url);
  relay = await TestRelay.open();
  executor = startExecutorProgram(relay, ['--no-native-spawn', '--no-allow-prepared-exec']);
  user.workspace.file('relay.token', relay.token('harness'));
  const add = ['env', 'add', 'behind', relay.harnessUrl, '--token-file', 'relay.token'];
  await user.run([...add, '--environment-id', ENVIRONMENT]);
  await waitFor('the executor', () => executor.stderr().includes('connected to'));

  await Promise.all([detached(server.url), detached('behind')]);
  const E = ['-E', proxy.url];
  const followers = [
    start('logs -f', ['logs', '-f', ...E, 'job']),
    start('attach', ['attach', ...E, 'job']),
    start('a relay', ['attach', '-E', 'behind', 'job']),
  ];
  start('wait', ['wait', ...E, 'job']);
  if (HAS_SSH) {
    machine = await SshMachine.start(user);
    await detached(machine.url, machine.env);
    followers.push(start('ssh', ['attach', '-E', machine.url, 'job'], machine.env));
  }
  mkdirSync(at('source'));
  writeFileSync(at('source/large'), '');
  truncateSync(at('source/large'), 24 * MIB);
  start('cp', ['cp', at('source/large'), `${proxy.url}:${at('copied')}`]);
  start('sync', ['sync', at('source'), `${proxy.url}:${at('synced')}`]);
  await Promise.all(followers.map(hasStarted));
  const asked = (method: string) => messages.log.some(({ text }) => text.includes(`"${method}"`));
  await waitFor('the request of wait', () => asked('process/wait'));
  const stalled = () => [...blocks.values()].filter((count) => count > PASSED_BLOCKS).length;
  await waitFor('both copies', () => stalled() === 2);

  proxy.interrupt();
  relay.harnessLink.interrupt();
  if (HAS_SSH) {
    await machine.stopListening();
    killSsh(followers.at(-1)!);
  }
});

afterAll(async () => {
  if (HAS_SSH) await machine?.close();
  await executor?.stop();
  await relay?.close();
  await proxy?.close();
  await messages?.close();
  await server?.close();
  await user.close();
});

/** The last line of stderr, with the port replaced. */
async function ending(name: string): Promise<[number | null, string]> {
  const { code, stderr } = await outcomes.get(name)!;
  return [
    code,
    stderr
      .trimEnd()
      .split('\n')
      .at(-1)!
      .replaceAll(/:\d{4,5}/g, ':PORT'),
  ];
}

const URL = 'ws://127\\.0\\.0\\.1:PORT';

describe('a server that stays away ends a command with 125, and a sentence that says what to do', () => {
  test.each([
    ['wait', `lost the server: .*; job may still run: 'exec-server wait -E ${URL} job' waits again`],
    [
      'logs -f',
      `lost the server: .*; the program may still run: 'exec-server logs -E ${URL} \\w+' prints its output`,
    ],
    [
      'attach',
      `lost the server: .*; the program should keep running: 'exec-server attach -E ${URL} job' attaches to it`,
    ],
    ['cp', `.*; run the same command to continue with the part .*\\.part`],
    ['sync', 'lost the server: .*; every file that was copied is complete; run the same command to continue'],
    [
      'a relay',
      `lost the server: .*; the program should keep running: 'exec-server attach -E behind job' attaches to it`,
    ],
    ...(HAS_SSH
      ? [
          [
            'ssh',
            `lost the server: .*; the program should keep running: 'exec-server attach -E ssh://.*:PORT job' attaches to it`,
          ],
        ]
      : []),
  ])('%s', async (name, sentence) => {
    expect(await ending(name)).toEqual([
      125,
      expect.stringMatching(new RegExp(`^exec-server: ${sentence}$`)),
    ]);
  });

  test('the same commands continue when the server is back', async () => {
    proxy.restore();
    dropsBlocks = false;
    const { code, stdout } = await user.run([
      'cp',
      '--json',
      at('source/large'),
      `${proxy.url}:${at('copied')}`,
    ]);
    expect([code, JSON.parse(stdout)]).toEqual([0, expect.objectContaining({ failed: [], bytes: 24 * MIB })]);
    expect(JSON.parse(stdout).resumedBytes).toBeGreaterThan(0);
    expect(await user.run(['sync', at('source'), `${proxy.url}:${at('synced')}`])).toMatchObject({ code: 0 });
    expect(readdirSync(at('synced'))).toEqual(['large']);
    for (const copy of ['copied', 'synced/large']) {
      expect(readFileSync(at(copy)).equals(readFileSync(at('source/large')))).toBe(true);
    }
    expect(await user.run(['kill', '-E', proxy.url, 'job'])).toMatchObject({ code: 0 });
  });
});
