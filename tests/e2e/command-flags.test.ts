import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { type RunningServer, runServer } from '../../src/server/serve.ts';
import { startServerProcess } from '../../src/testing/index.ts';
import { collect } from '../support/collect.ts';
import { ConsoleBrowser, outputThrough } from '../support/console-browser.ts';
import { onFreePort } from '../support/free-port.ts';
import { connectMcp } from '../support/mcp-client.ts';
import { CommandUser } from '../support/private-server.ts';
import { shell } from '../support/programs.ts';
import { ENVIRONMENT, TestRelay } from '../support/relay.ts';
import { waitFor } from '../support/wait-for.ts';
import { CLI, firstLine } from '../unit/cli/run-cli.ts';

// Flags that no other test gives to a program with success.

const TOKEN = 'the-token-of-the-guarded-server';
const user = new CommandUser();
const at = (name: string) => join(user.workspace.path, name);
let guarded: RunningServer;

beforeAll(async () => {
  const wsTokenSha256 = createHash('sha256').update(TOKEN).digest('hex');
  guarded = await runServer({ logLevel: 'error', wsAuth: 'capability-token', wsTokenSha256 });
  user.workspace.file('token', TOKEN);
});
afterAll(async () => {
  await guarded.close();
  await user.close();
});

test('env ls --json and version --json print JSON', async () => {
  expect(await user.run(['env', 'add', 'named', guarded.url!, '--token-file', 'token'])).toMatchObject({
    code: 0,
  });
  const listed = await user.run(['env', 'ls', '--json']);
  expect([listed.code, JSON.parse(listed.stdout)]).toEqual([
    0,
    [
      { name: 'local', address: "this machine's private server", file: null, isCurrent: true },
      {
        name: 'named',
        address: guarded.url,
        file: expect.stringMatching(/environments.toml$/),
        isCurrent: false,
      },
    ],
  ]);
  const version = await user.run(['version', '--json']);
  const { version: node, platform, arch } = process;
  const printed = { version: expect.stringMatching(/^\d+\.\d+\.\d+/), node, platform, arch };
  expect([version.code, JSON.parse(version.stdout)]).toEqual([0, printed]);
});

test('help prints the help of a command, and mcp config --write and relay token --out write files', async () => {
  const [help, flag] = await Promise.all([user.run(['help', 'logs']), user.run(['logs', '--help'])]);
  expect(help).toEqual(flag);
  expect(help).toMatchObject({
    code: 0,
    stdout: expect.stringContaining('Usage: exec-server logs '),
    stderr: '',
  });
  const mcp = ['--read-only', '--root', '/usr'];
  expect(await user.run(['mcp', 'config', 'cursor', '--write', ...mcp])).toMatchObject({ code: 0 });
  expect(JSON.parse(readFileSync(at('.cursor/mcp.json'), 'utf8'))).toEqual({
    mcpServers: {
      'exec-server': { command: process.execPath, args: [CLI, 'mcp', '--root', '/usr', '--read-only'] },
    },
  });
  const secret = user.workspace.file('relay.secret', 'a secret of more than thirty-two bytes');
  const claims = ['--role', 'harness', '--environment', 'box', '--id', 'x', '--expires-in', '1m'];
  const minted = ['relay', 'token', '--secret-file', secret, ...claims, '--out', 'minted'];
  expect(await user.run(minted)).toMatchObject({ code: 0 });
  expect([readFileSync(at('minted'), 'utf8'), statSync(at('minted')).mode & 0o777]).toEqual([
    expect.stringMatching(/^\S{50,}\n?$/),
    0o600,
  ]);
});

test('play --idle-limit shortens the pauses of a recording', async () => {
  const events = ['[0, "o", "one "]', '[86400, "o", "two"]', '[0, "x", "0"]'];
  writeFileSync(
    at('day.cast'),
    ['{"version": 3, "term": {"cols": 80, "rows": 24}}', ...events, ''].join('\n'),
  );
  // Without the limit it would play for a day.
  const player = [process.execPath, CLI, 'play', '--idle-limit', '10ms', at('day.cast')];
  const { stdout: ref } = await user.run(['run', '-d', '-t', '--', ...player]);
  expect(await user.run(['wait', ref.trim()])).toMatchObject({ code: 0 });
  expect((await user.run(['logs', ref.trim()])).stdout).toContain('one two');
});

test('console --port serves on that port, and --token-file lets it into a server', async () => {
  const { run, link, port } = await onFreePort(async (free) => {
    const flags = ['--no-open', '-p', String(free), '-E', guarded.url!, '--token-file', 'token'];
    const started = user.start(['console', ...flags]);
    onTestFinished(() => void started.child.kill('SIGKILL'));
    const printed = await Promise.race([firstLine(started), started.outcome.then(({ stderr }) => stderr)]);
    if (!printed.startsWith('http')) throw new Error(printed);
    return { run: started, link: printed, port: free };
  });
  expect(new URL(link).port).toBe(String(port));
  const browser = await ConsoleBrowser.open(link);
  expect(await outputThrough(browser, ['echo', 'let in'])).toBe('let in\n');
  run.child.kill('SIGINT');
  expect(await run.outcome).toMatchObject({ code: 0, stderr: '' });
});

test('mcp --token-file lets the tools into a server', async () => {
  const client = await connectMcp('2025-11-25', {
    args: ['mcp', '-E', guarded.url!, '--token-file', 'token', '--sandbox', 'off'],
    cwd: user.workspace.path,
    env: { HOME: user.workspace.path, ...user.env },
  });
  onTestFinished(() => client.close());
  const { text, isError } = await client.call('exec_command', { cmd: 'echo let in', login: false });
  expect([isError, text]).toEqual([false, expect.stringContaining('let in')]);
});

test('drain --pid ends the server with this process id when its program has ended', async () => {
  const server = await startServerProcess();
  const exited = once(server.process, 'exit');
  const client = await server.connect();
  await client.call('process/start', { ...shell('job', 'cat'), pipeStdin: true });
  const drain = user.start(['drain', '--pid', String(server.process.pid)]);
  await once(drain.child.stderr, 'data');
  await client.call('process/closeStdin', { processId: 'job' });
  await client.closedProcess('job');
  await client.close();
  expect(await exited).toEqual([0, null]);
  const stderr = expect.stringContaining(`process ${server.process.pid} has ended\n`);
  expect(await drain.outcome).toMatchObject({ code: 0, stderr });
});

test('connect makes a server reachable through a relay, ignores SIGHUP, and ends with stdin', async () => {
  const relay = await TestRelay.open();
  onTestFinished(() => relay.close());
  const server = await startServerProcess();
  onTestFinished(() => server.close());
  const place = ['--connect', server.url, '--remote', relay.executorUrl, '--environment-id', ENVIRONMENT];
  const more = ['--name', 'one', '--remote-transport', 'noise', '--exit-on-stdin-close'];
  const ignored = [
    ...['--enable', 'one', '--disable', 'two', '--linux-sandbox-pid-namespace', 'isolate'],
    ...['--proxy-private-ips-via-upstream', '--config', 'model=x'],
  ];
  const connecting = user.start(['connect', ...place, ...more, ...ignored], {
    EXEC_SERVER_API_KEY: relay.token('executor'),
  });
  const { child, outcome } = connecting;
  const printed = collect(connecting);
  const refused = await user.run(['connect', ...place, '--strict-config', ...ignored]);
  expect([refused.code, refused.stderr]).toEqual([1, expect.stringContaining('-c model has no effect')]);
  await waitFor('the connection', () => printed.stderr.includes('connected to'));
  user.workspace.file('relay.token', relay.token('harness'));
  const add = ['env', 'add', 'forwarded', relay.harnessUrl, '--token-file', 'relay.token'];
  expect(await user.run([...add, '--environment-id', ENVIRONMENT])).toMatchObject({ code: 0 });
  const program = ['run', '-E', 'forwarded', '--', 'sh', '-c', 'echo through; exit 7'];
  const ran = { code: 7, stdout: 'through\n', stderr: '' };
  expect(await user.run(program)).toMatchObject(ran);
  child.kill('SIGHUP');
  expect(await user.run(program)).toMatchObject(ran);
  child.stdin.end();
  expect(await outcome).toMatchObject({ code: 0, signal: null });
});
