import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, symlinkSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, afterEach, expect, test } from 'vitest';
import { DEFAULT_CONFIG } from '../../src/server/config/config.ts';
import { type RunningServer, serve } from '../../src/server/index.ts';
import { startServerProcess, TestClient } from '../../src/testing/index.ts';
import { base64, shell } from '../support/programs.ts';
import { waitFor } from '../support/wait-for.ts';
import { CLI, Workspace } from '../unit/cli/run-cli.ts';

const workspace = new Workspace();
afterAll(() => workspace.close());

let server: RunningServer | null = null;
afterEach(async () => {
  await server?.close();
  server = null;
});

async function start(): Promise<RunningServer> {
  const settings = { shutdownGracePeriodMs: 0, logLevel: 'error' as const, metricsListen: '127.0.0.1:0' };
  server = await serve({ ...DEFAULT_CONFIG, ...settings });
  return server;
}

/** Connects a client that asks for `server/draining`. */
async function connect({ url }: RunningServer, resumeSessionId?: string, whileDraining = false) {
  const client = await TestClient.connect(url!);
  const capabilities = { drainNotice: true, whileDraining };
  const sessionId = await client.handshake({ clientName: 'test', capabilities, resumeSessionId });
  return { client, sessionId };
}

/** The status of a health probe on the listener of clients, and on that of the metrics. */
async function readiness({ url, metricsUrl }: RunningServer): Promise<number[]> {
  const probes = [url!.replace('ws:', 'http:'), new URL('/', metricsUrl!).origin];
  return Promise.all(probes.map(async (origin) => (await fetch(`${origin}/readyz`)).status));
}

/** A program that runs until its input ends. */
const untilEnd = (processId: string) => ({ ...shell(processId, 'cat; echo done'), pipeStdin: true });

test('refuses new programs and sessions that may start some, keeps serving the others, and ends with the last program', async () => {
  const running = await start();
  const { client, sessionId } = await connect(running);
  await client.call('process/start', untilEnd('job'));
  expect(await readiness(running)).toEqual([200, 200]);

  const drained = running.drain();
  const notice = await client.waitFor(
    (message) => 'method' in message && message.method === 'server/draining',
  );
  expect(notice).toMatchObject({ params: { deadlineMs: expect.any(Number) } });
  expect(await readiness(running)).toEqual([503, 503]);
  const draining = await fetch(running.metricsUrl!);
  expect(await draining.text()).toContain('exec_server_draining 1\n');

  await expect(client.call('process/start', untilEnd('late'))).rejects.toThrow('the server is draining');
  await expect(connect(running)).rejects.toThrow('the server is draining: it accepts no new sessions');

  await client.drop();
  const { client: again } = await connect(running, sessionId);
  await again.waitFor((message) => 'method' in message && message.method === 'server/draining');
  await again.call('process/write', { processId: 'job', chunk: base64('more\n') });
  await again.call('process/closeStdin', { processId: 'job' });
  const job = await again.closedProcess('job');
  expect(job.exitCode).toBe(0);
  await again.close();
  await drained;
  await running.closed;
});

test('a session that begins later looks at programs, controls them and reads files, and starts no work', async () => {
  const running = await start();
  const { client } = await connect(running);
  await client.call('process/start', untilEnd('job'));
  void running.drain();
  const { client: late, sessionId } = await connect(running, undefined, true);
  const [job] = (await late.call('process/list', { scope: 'owner' })).processes;
  expect(job).toMatchObject({ state: 'running' });
  const path = `file://${workspace.file('result', 'text')}`;
  expect(await late.call('fs/readFile', { path })).toMatchObject({ dataBase64: base64('text') });

  const refusal = (method: string) => `the server is draining: it refuses ${method} in new sessions`;
  await expect(late.call('process/start', untilEnd('late'))).rejects.toThrow('it starts no programs');
  await expect(late.call('fs/writeFile', { path, dataBase64: '' })).rejects.toThrow(refusal('fs/writeFile'));
  await expect(late.call('tcp/connect', { streamId: 's', host: '127.0.0.1', port: 9 })).rejects.toThrow(
    refusal('tcp/connect'),
  );
  // Also after it has come back.
  await late.drop();
  const { client: again } = await connect(running, sessionId);
  await expect(again.call('fs/writeFile', { path, dataBase64: '' })).rejects.toThrow(refusal('fs/writeFile'));
  // The client that was there before is not restricted.
  await client.call('fs/writeFile', { path, dataBase64: base64('more') });

  const closed = client.closedProcess('job');
  await again.call('process/terminate', { processId: job!.ref! });
  await again.call('process/wait', { processId: job!.ref!, until: 'closed' });
  await closed;
  for (const each of [again, client]) await each.close();
  await running.closed;
});

test('another call with a time changes when the rest ends', async () => {
  const running = await start();
  const { client } = await connect(running);
  await client.call('process/start', untilEnd('job'));
  expect(running.drainStatus()).toBeNull();
  const drained = running.drain(Number.POSITIVE_INFINITY);
  expect(running.drainStatus()).toMatchObject({ deadlineMs: null, programs: [{ argv: expect.any(Array) }] });
  void running.drain();
  expect(running.drainStatus()).toMatchObject({ deadlineMs: null });
  void running.drain(10);
  const isDated = (message: object) => 'params' in message && Object.hasOwn(message.params!, 'deadlineMs');
  expect(await client.waitFor(isDated)).toMatchObject({ method: 'server/draining' });
  await drained;
});

test('waits for the output of processes that a program has left behind', async () => {
  const running = await start();
  const { client, sessionId } = await connect(running);
  const go = join(workspace.path, 'go');
  const script = `{ until [ -e ${go} ]; do sleep 0.05; done; echo late; } & echo early`;
  await client.call('process/start', shell('job', script));
  await client.waitFor((message) => 'method' in message && message.method === 'process/exited');
  await client.drop();
  const drained = running.drain();
  const { client: again } = await connect(running, sessionId);
  workspace.file('go', '');
  await again.call('process/wait', { processId: 'job', until: 'closed' });
  const { stdout } = await again.call('process/snapshot', { processId: 'job' });
  expect(stdout).toBe(base64('early\nlate\n'));
  await again.close();
  await drained;
});

test('ends the programs that are left after the time-out', async () => {
  const running = await start();
  const { client } = await connect(running);
  await client.call('process/start', untilEnd('job'));
  await running.drain(10);
  expect((await client.closedProcess('job')).exitCode).not.toBe(0);
});

test('ends immediately without programs, and does not wait for a close that comes first', async () => {
  const running = await start();
  await running.drain();
  await running.closed;

  const other = await start();
  const { client } = await connect(other);
  await client.call('process/start', untilEnd('job'));
  const drained = other.drain(Number.POSITIVE_INFINITY);
  await other.close();
  await drained;
});

test('a client that has not asked for it gets no notification', async () => {
  const running = await start();
  const client = await TestClient.connect(running.url!);
  await client.handshake();
  await client.call('process/start', untilEnd('job'));
  void running.drain();
  await client.call('process/closeStdin', { processId: 'job' });
  const next = await client.waitFor((message) => 'method' in message);
  expect(next).not.toMatchObject({ method: 'server/draining' });
  await client.close();
});

test('the command drain ends a server that runs as a process', async () => {
  const pidFile = join(workspace.path, 'pid');
  const child = await startServerProcess(['--pid-file', pidFile]);
  const exited = once(child.process, 'exit');
  const client = await child.connect();
  await client.call('process/start', untilEnd('job'));
  const before = Date.now();
  const command = workspace.start(['drain', '--pid-file', pidFile, '--timeout', '2h']);
  let printed = '';
  command.child.stderr.on('data', (text) => {
    printed += text;
  });
  await waitFor('the list', () => / end at (.*)\n/.test(printed));
  const deadline = Date.parse(/ end at (.*)\n/.exec(printed)![1]!);
  expect(deadline - before).toBeGreaterThanOrEqual(2 * 3_600_000);
  expect(deadline - before).toBeLessThan(3 * 3_600_000);
  expect(printed).toMatch(/REF +NAME +AGE +COMMAND\n\w+ +- +\d+s +.*cat; echo done/);
  await client.call('process/closeStdin', { processId: 'job' });
  await client.closedProcess('job');
  await client.close();
  expect(await exited).toEqual([0, null]);
  expect(await command.outcome).toMatchObject({ code: 0, stderr: expect.stringContaining('has ended\n') });
  expect(existsSync(`${pidFile}.drain`)).toBe(false);
});

test('the command drain ends the programs after its time, and changes that of an earlier one', async () => {
  const pidFile = join(workspace.path, 'pid');
  const child = await startServerProcess(['--pid-file', pidFile]);
  const client = await child.connect();
  await client.call('process/start', untilEnd('job'));
  const first = workspace.start(['drain', '--pid-file', pidFile]);
  await once(first.child.stderr, 'data');
  const third = workspace.start(['drain', '--pid-file', pidFile, '--json']);
  await once(third.child.stdout, 'data');
  const second = await workspace.run(['drain', '--pid-file', pidFile, '--timeout', '100ms']);
  expect(second.stderr).toMatch(/has ended, and its programs were ended after 100ms\n$/);
  const lines = (await third.outcome).stdout
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line));
  expect(lines).toEqual([
    expect.objectContaining({ type: 'draining', pid: child.process.pid, total: 1 }),
    { type: 'ended', pid: child.process.pid, timedOut: false },
  ]);
  expect(await first.outcome).toMatchObject({ code: 0 });
  await client.close();
});

test('the command drain fails when the server is killed before its programs have ended', async () => {
  const pidFile = join(workspace.path, 'killed-pid');
  const child = await startServerProcess(['--pid-file', pidFile]);
  const client = await child.connect();
  await client.call('process/start', untilEnd('job'));
  const command = workspace.start(['drain', '--pid-file', pidFile, '--json']);
  await once(command.child.stdout, 'data');
  child.process.kill('SIGKILL');
  const { code, stdout, stderr } = await command.outcome;
  expect(code).toBe(1);
  expect(stdout).not.toContain('ended');
  expect(JSON.parse(stderr)).toMatchObject({
    code: 'killed',
    message: expect.stringContaining('was killed'),
  });
});

test('the command drain says when the server does not answer', async () => {
  const pidFile = join(workspace.path, 'stopped-pid');
  const child = await startServerProcess(['--pid-file', pidFile]);
  child.process.kill('SIGSTOP');
  const commands = [[], ['--json']].map((flags) =>
    workspace.start(['drain', '--pid-file', pidFile, ...flags]),
  );
  const [text, json] = await Promise.all(
    [commands[0]!.child.stderr, commands[1]!.child.stdout].map(async (stream) =>
      String((await once(stream, 'data'))[0]),
    ),
  );
  child.process.kill('SIGCONT');
  expect(text).toMatch(/^process \d+ does not answer: it is stopped, busy, or /);
  expect(JSON.parse(json!)).toMatchObject({ type: 'note', message: expect.stringContaining('not answer') });
  for (const { outcome } of commands) expect(await outcome).toMatchObject({ code: 0 });
});

test('the command drain has nothing to do without the file of a server', async () => {
  const flags = ['--pid-file', join(workspace.path, 'removed')];
  expect(await workspace.run(['drain', ...flags])).toMatchObject({
    code: 0,
    stderr: 'no server is running\n',
  });
  const { code, stdout } = await workspace.run(['drain', ...flags, '--json']);
  expect([code, JSON.parse(stdout)]).toEqual([0, { type: 'notRunning' }]);
  // What cannot be read says nothing about the server.
  const below = join(workspace.file('no-folder', ''), 'pid');
  expect(await workspace.run(['drain', '--pid-file', below])).toMatchObject({
    code: 1,
    stderr: expect.stringContaining(`cannot read --pid-file ${below}: not a directory`),
  });
});

test('the command drain signals no other process', async () => {
  const pidFile = workspace.file('other-pid', `${process.pid}\n`);
  const { code, stderr } = await workspace.run(['drain', '--pid-file', pidFile]);
  expect(stderr).toContain('is no exec-server that can drain');
  expect(code).toBe(1);
});

test('drain --pid signals a server, and no other program that handles the signal', async () => {
  const other = spawn('bash', ['-c', 'trap "echo signalled" USR2; echo ready; cat'], { stdio: 'pipe' });
  let printed = '';
  other.stdout.setEncoding('utf8').on('data', (text) => {
    printed += text;
  });
  await waitFor('the trap', () => printed === 'ready\n');
  const { code, stderr } = await workspace.run(['drain', '--pid', String(other.pid)]);
  expect([code, stderr]).toEqual([
    1,
    `exec-server: process ${other.pid} is not recognized as an exec-server: its program is 'bash'; find the process id of the server, or use --pid-file\n`,
  ]);
  other.stdin.end();
  await once(other, 'close');
  expect(printed).toBe('ready\n');

  const child = await startServerProcess([]);
  const drained = await workspace.run(['drain', '--pid', String(child.process.pid)]);
  expect(drained).toMatchObject({ code: 0, stderr: expect.stringContaining('has ended\n') });
});

test('drain --pid recognizes a server behind options of Node and a link', async () => {
  const link = join(workspace.path, 'es.cjs');
  symlinkSync(CLI, link);
  const options = ['--no-deprecation', '--stack-trace-limit=20', '--no-warnings', '--max-old-space-size=500'];
  const server = spawn(process.execPath, [...options, link, 'serve'], { stdio: ['pipe', 'pipe', 'ignore'] });
  const exited = once(server, 'exit');
  await once(server.stdout, 'data');
  const drained = await workspace.run(['drain', '--pid', String(server.pid)]);
  expect(drained).toMatchObject({ code: 0, stderr: expect.stringContaining('has ended\n') });
  expect(await exited).toEqual([0, null]);
});
