import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { describe, expect, onTestFinished, test } from 'vitest';
import { ExecServerClient } from '../../src/client/client.ts';
import { communicate } from '../../src/client/process/run.ts';
import type { ExecServerConfig } from '../../src/server/config/config.ts';
import { startServer, startServerProcess, TcpProxy, TestClient } from '../../src/testing/index.ts';
import { plain, shell } from '../support/programs.ts';
import { connectWhenThere, startExecutorProgram, TestRelay } from '../support/relay.ts';
import { waitFor } from '../support/wait-for.ts';
import { parseExposition } from '../unit/observability/parse-exposition.ts';

/** A machine that a client can be cut off from. */
interface Machine {
  connect(resumeSessionId?: string): Promise<ExecServerClient>;
  readonly link: TcpProxy;
}

const EXPECTED = {
  stdout: `started\n${Array.from({ length: 5_000 }, (_, index) => `${index + 1}\n`).join('')}`,
  exitCode: 5 as number | null,
};

/** The methods that start the job, and how the same client or another one gets its result. */
const DIALECTS = {
  'process/*': async (client: ExecServerClient, script: string) => {
    const process = await client.backend.start(shell('job', script));
    await waitFor('the first output', () => process.revision > 0);
    const result = communicate(process, undefined).then(({ text, exitCode }) => ({
      stdout: text.stdout,
      exitCode,
    }));
    result.catch(() => {});
    return () => result;
  },
  'command/exec': async (client: ExecServerClient, script: string) => {
    const printed = new Promise((resolve) => client.onNotification('command/exec/outputDelta', resolve));
    await client.call('command/exec', { processId: 'job', argv: ['/bin/sh', '-c', script], ...plain });
    await printed;
    return () => read(client);
  },
};

/** Reads the whole output and the exit code of the job. */
async function read(client: ExecServerClient): Promise<typeof EXPECTED> {
  const { exitCode } = await client.call('process/wait', { processId: 'job' });
  const { chunks } = await client.call('process/read', { processId: 'job' });
  const stdout = chunks.map(({ chunk }) => Buffer.from(chunk, 'base64').toString()).join('');
  return { stdout, exitCode };
}

/** Starts the job. Returns how to get its result after the client was away. */
async function begin(
  machine: Machine,
  dialect: keyof typeof DIALECTS,
  mode: 'resumed' | 'detached',
  script: string,
) {
  const client = await machine.connect();
  onTestFinished(() => client.close());
  const result = await DIALECTS[dialect](client, script);
  if (mode === 'resumed') return result;
  await client.close();
  return async () => {
    const next = await machine.connect(client.sessionId);
    onTestFinished(() => next.close());
    return read(next);
  };
}

/** Starts the job on every machine in both dialects, with a client that resumes its session and one that leaves it to another. */
function beginAll(machines: readonly Machine[], script: string) {
  return Promise.all(
    machines.flatMap((machine) =>
      (['process/*', 'command/exec'] as const).flatMap((dialect) =>
        (['resumed', 'detached'] as const).map((mode) => begin(machine, dialect, mode, script)),
      ),
    ),
  );
}

/** A server in this process whose closed processes expire quickly. */
async function quickServer(config: Partial<ExecServerConfig> = {}) {
  const server = await startServer({
    metrics: true,
    detachedSessionTtlMs: 3_600_000,
    closedProcessRetentionMs: 20,
    ...config,
  });
  onTestFinished(() => server.close());
  const proxy = await TcpProxy.open(server.url);
  onTestFinished(() => proxy.close());
  const gauge = async (name: string) => {
    const response = await fetch(`${server.url.replace('ws:', 'http:')}/metrics`);
    return parseExposition(await response.text()).get(`exec_server_${name}`)![0]!.value;
  };
  return { ...server, proxy, gauge };
}

describe('a job that ends while its client is away', () => {
  test('is kept beyond its retention time, until a client has read its output and exit code', async () => {
    // The client that comes back has this long to read.
    const { proxy, gauge } = await quickServer({ closedProcessRetentionMs: 4_000 });
    const machine = { link: proxy, connect: (sessionId?: string) => connectTo(proxy.url, sessionId) };
    const folder = mkdtempSync(join(tmpdir(), 'away-'));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const gate = `while [ ! -e ${folder}/go ]; do sleep 0.01; done`;
    const results = await beginAll([machine], `echo started; ${gate}; seq 1 5000; exit 5`);
    proxy.interrupt();
    writeFileSync(join(folder, 'go'), '');
    await waitFor('the end of the retention', async () => (await gauge('detached_processes')) === 4);
    expect(await gauge('detached_output_bytes')).toBeGreaterThan(4 * EXPECTED.stdout.length);
    proxy.restore();
    for (const result of await Promise.all(results.map((each) => each()))) expect(result).toEqual(EXPECTED);
    await waitFor('the end of the second retention', async () => (await gauge('detached_processes')) === 0);
    expect(await gauge('detached_output_bytes')).toBe(0);
  });

  test('is kept although the server believes that the client is there', async () => {
    const { proxy, gauge } = await quickServer();
    const client = await connectTo(proxy.url);
    onTestFinished(() => client.close());
    const job = await client.backend.start(shell('job', 'echo started; sleep 0.2'));
    await waitFor('the first output', () => job.revision > 0);
    // Like a laptop that sleeps: nothing arrives, and nothing is sent.
    proxy.setStalled(true);
    await waitFor('the end of the job', async () => (await gauge('processes_active')) === 0);
    // Much longer than the retention time.
    await delay(500);
    proxy.interrupt();
    await waitFor('the detached session', async () => (await gauge('detached_processes')) === 1);
  });

  const LONG = { timeout: 180_000 };
  test(
    'arrives after 40 seconds with one setting on each side, over a websocket and a relay',
    LONG,
    async () => {
      const machines = [await overWebSocket(), await overRelay()];
      const results = await beginAll(machines, 'echo started; sleep 3; seq 1 5000; exit 5');
      for (const { link } of machines) link.interrupt();
      // Longer than the defaults: 25 s for the client, 30 s for a session and for a closed process.
      await delay(40_000);
      for (const { link } of machines) link.restore();
      for (const result of await Promise.all(results.map((each) => each()))) expect(result).toEqual(EXPECTED);
    },
  );
});

function connectTo(url: string, resumeSessionId?: string): Promise<ExecServerClient> {
  return ExecServerClient.connect({
    url,
    recoveryWindowMs: 'none',
    ...(resumeSessionId && { resumeSessionId }),
  });
}

const SERVER_SETTING = ['--detached-session-ttl', '1h'];

async function overWebSocket(): Promise<Machine> {
  const server = await startServerProcess(SERVER_SETTING);
  onTestFinished(() => server.close());
  const proxy = await TcpProxy.open(server.url);
  onTestFinished(() => proxy.close());
  return {
    link: proxy,
    connect: (resumeSessionId) => connectTo(proxy.url, resumeSessionId),
  };
}

async function overRelay(): Promise<Machine> {
  const relay = await TestRelay.open();
  onTestFinished(() => relay.close());
  const executor = startExecutorProgram(relay, SERVER_SETTING);
  onTestFinished(() => executor.stop());
  return {
    connect: (resumeSessionId) =>
      connectWhenThere(relay, { recoveryWindowMs: 'none', ...(resumeSessionId && { resumeSessionId }) }),
    link: relay.harnessLink,
  };
}

describe('a result beyond the limits of the server', () => {
  /** Two jobs that end while their client is away; the server drops the first one. */
  async function dropFirst() {
    const { proxy, gauge, url } = await quickServer({ maxDetachedProcesses: 1 });
    const client = await connectTo(proxy.url);
    onTestFinished(() => client.close());
    const first = await client.backend.start(shell('first', 'echo up; sleep 0.1; exit 3'));
    const second = await client.backend.start(shell('second', 'echo running; sleep 0.3; seq 1 5000'));
    await waitFor('the start of both', () => first.revision > 0 && second.revision > 0);
    proxy.interrupt();
    // The memory of the second.
    await waitFor('the drop of the first', async () => (await gauge('detached_output_bytes')) > 20_000);
    expect(await gauge('detached_processes')).toBe(1);
    return { proxy, client, first, url };
  }

  test('is reported to the client that comes back', async () => {
    const { proxy, client, first } = await dropFirst();
    proxy.restore();
    await waitFor('the recovery', () => client.state === 'connected');
    expect(client.droppedProcesses).toMatchObject([
      { processId: 'first', exitCode: 3, limit: 'maxDetachedProcesses' },
    ]);
    await waitFor('the report', () => first.state.failure !== null);
    expect(first.state.failure?.message).toMatch(
      /process first exited with code 3 and closed at \S+Z; its output was dropped at \S+Z, while it waited for a client \(maxDetachedProcesses\)/,
    );
  });

  test('is unknown to a client that does not ask for reports, as on the reference', async () => {
    const { client, url } = await dropFirst();
    const resumeSessionId = client.sessionId;
    await client.close();
    const reference = await TestClient.connect(url);
    const result = await reference.call('initialize', { clientName: 'codex', resumeSessionId });
    expect(Object.keys(result)).toEqual(['sessionId', 'environmentInfo']);
    reference.notify('initialized');
    await expect(reference.request('process/read', { processId: 'first' })).rejects.toMatchObject({
      code: -32600,
      message: 'unknown process id first',
    });
    await reference.close();
  });
});
