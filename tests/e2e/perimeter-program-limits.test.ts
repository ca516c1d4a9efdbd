import { afterEach, describe, expect, test } from 'vitest';
import { readProcess } from '../../src/process/tree/process-table.ts';
import { type Incoming, startServer, type TestClient, type TestServer } from '../../src/testing/index.ts';
import { shell } from '../support/programs.ts';
import { waitFor } from '../support/wait-for.ts';

let servers: TestServer[] = [];
afterEach(async () => {
  await Promise.all(servers.map((server) => server.close()));
  servers = [];
});

async function connect(config: Parameters<typeof startServer>[0] = {}): Promise<TestClient> {
  const server = await startServer(config);
  servers.push(server);
  return server.connect();
}

async function ended(client: TestClient, processId: string): Promise<Incoming['params']> {
  await client.closedProcess(processId);
  const isExit = ({ method, params }: Incoming) =>
    method === 'process/exited' && (params as { processId: string }).processId === processId;
  return (await client.waitFor(isExit)).params;
}

describe('a program that exceeds a limit', () => {
  test.each([
    ['timeout', { wallMs: 200 }, 'while :; do echo busy; sleep 0.05; done'],
    ['idle', { idleMs: 200 }, 'echo once; sleep 1000'],
    ['outputLimit', { outputBytes: 100_000 }, 'yes'],
  ] as const)('%s', async (reason, limits, script) => {
    const client = await connect();
    await client.call('process/start', { ...shell('p', script), limits });
    expect(await ended(client, 'p')).toMatchObject({ exitCode: 137, reason });
    const { exitCode, reason: read } = await client.call('process/read', { processId: 'p' });
    expect([exitCode, read]).toEqual([137, reason]);
    const { processes } = await client.call('process/list', {});
    expect(processes).toMatchObject([{ state: 'closed', reason }]);
  });

  test('delivers its output up to the last allowed byte', async () => {
    const client = await connect();
    await client.call('process/start', { ...shell('p', 'yes'), limits: { outputBytes: 100_000 } });
    expect((await client.closedProcess('p')).bytes()).toHaveLength(100_000);
  });

  test('is killed with its descendants', async () => {
    const client = await connect();
    const script = 'setsid sh -c "sleep 4711" & echo $!; sleep 1000';
    await client.call('process/start', { ...shell('p', script), limits: { wallMs: 300 } });
    const events = await client.closedProcess('p');
    const pid = Number(events.text());
    await waitFor('the end of its descendants', () => readProcess(pid) === null);
  });

  test('is killed on a terminal too', async () => {
    const client = await connect();
    await client.call('process/start', { ...shell('p', 'sleep 1000'), tty: true, limits: { idleMs: 100 } });
    expect(await ended(client, 'p')).toMatchObject({ reason: 'idle' });
  });

  test('cannot allocate more memory than its limit', async () => {
    const client = await connect();
    const script = 'read go; exec dd if=/dev/zero of=/dev/null bs=200M count=1';
    const limits = { memoryBytes: 64 * 1024 * 1024 };
    await client.call('process/start', { ...shell('p', script), pipeStdin: true, limits });
    await client.call('process/write', { processId: 'p', chunk: 'Cg==' });
    expect(await ended(client, 'p')).not.toMatchObject({ exitCode: 0 });
  });
});

test('a program within its limits ends without a reason', async () => {
  const client = await connect();
  const limits = { wallMs: 60_000, idleMs: 60_000, outputBytes: 1_000, memoryBytes: 2 ** 30 };
  await client.call('process/start', { ...shell('limited', 'echo hi'), limits });
  expect(await ended(client, 'limited')).toEqual({
    processId: 'limited',
    seq: expect.any(Number),
    exitCode: 0,
    sandboxDenied: false,
  });
});

test('applies the limits of the server to every client; a client can only lower them', async () => {
  const client = await connect({ maxProcessOutputBytes: 1_000 });
  await client.call('process/start', { ...shell('more', 'yes'), limits: { outputBytes: 10_000 } });
  await client.call('process/start', { ...shell('less', 'yes'), limits: { outputBytes: 100 } });
  await client.call('process/start', shell('none', 'yes'));
  const lengths = ['more', 'less', 'none'].map(async (id) => (await client.closedProcess(id)).bytes().length);
  expect(await Promise.all(lengths)).toEqual([1_000, 100, 1_000]);
});

test('accepts limits in every form of process/start', async () => {
  const client = await connect();
  const { processId, argv, cwd, env } = shell('d', 'yes');
  const io = { type: 'pipe', stdin: 'closed' } as const;
  const limits = { outputBytes: 10 };
  await client.call('process/start', { direct: { processId, argv, cwd, env, io, limits } });
  await client.call('process/start', {
    prepared: { processId: 'q', request: { argv, cwd, env }, io, limits },
  });
  expect((await client.closedProcess('d')).bytes()).toHaveLength(10);
  expect((await client.closedProcess('q')).bytes()).toHaveLength(10);
});

test.each([[{ wallMs: 0 }], [{ memoryBytes: -1 }], [{ pids: 1.5 }], [{ outputBytes: '1k' }]])(
  'refuses the limit %j',
  async (limits) => {
    const client = await connect();
    const start = client.request('process/start', { ...shell('p', 'true'), limits });
    await expect(start).rejects.toMatchObject({ code: -32602 });
  },
);

test('refuses a limit that needs control groups where there are none', async () => {
  const client = await connect({ nativeSpawn: false });
  const start = client.call('process/start', { ...shell('p', 'true'), limits: { pids: 5 } });
  await expect(start).rejects.toMatchObject({ code: -32600, message: expect.stringContaining('pids') });
  expect((await client.call('process/list', {})).processes).toEqual([]);
});
