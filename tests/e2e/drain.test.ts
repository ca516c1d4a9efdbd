import { once } from 'node:events';
import { join } from 'node:path';
import { afterAll, afterEach, expect, test } from 'vitest';
import { DEFAULT_CONFIG } from '../../src/server/config/config.ts';
import { type RunningServer, serve } from '../../src/server/index.ts';
import { startServerProcess, TestClient } from '../../src/testing/index.ts';
import { base64, shell } from '../support/programs.ts';
import { Workspace } from '../unit/cli/run-cli.ts';

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
async function connect({ url }: RunningServer, resumeSessionId?: string) {
  const client = await TestClient.connect(url!);
  const capabilities = { drainNotice: true };
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

test('refuses new sessions and programs, keeps serving the others, and ends with the last program', async () => {
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
  const command = workspace.start(['drain', '--pid-file', pidFile]);
  await once(command.child.stderr, 'data');
  await client.call('process/closeStdin', { processId: 'job' });
  await client.closedProcess('job');
  await client.close();
  expect(await exited).toEqual([0, null]);
  expect(await command.outcome).toMatchObject({ code: 0, stderr: expect.stringContaining('has ended\n') });
});

test('the command drain signals no other process', async () => {
  const { code, stderr } = await workspace.run(['drain', '--pid', String(process.pid)]);
  expect(stderr).toContain('is no exec-server that can drain');
  expect(code).toBe(1);
});
