import { mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';
import type { ExecServerClient } from '../../src/client/client.ts';
import { run } from '../../src/client/process/run.ts';
import { createLogger } from '../../src/observability/log.ts';
import { runRemoteEnvironment } from '../../src/relay/executor/run-remote-environment.ts';
import { bearerAuth } from '../../src/relay/registry-auth.ts';
import { DEFAULT_CONFIG } from '../../src/server/config/config.ts';
import { startServerProcess } from '../../src/testing/index.ts';
import { shell } from '../support/programs.ts';
import {
  connectWhenThere,
  ENVIRONMENT,
  overRelay,
  type RunningProgram,
  startBin,
  startExecutorProgram,
  TestRelay,
} from '../support/relay.ts';
import { waitFor } from '../support/wait-for.ts';

async function openRelay(): Promise<TestRelay> {
  const relay = await TestRelay.open();
  onTestFinished(() => relay.close());
  return relay;
}

function stopped(program: RunningProgram): RunningProgram {
  onTestFinished(() => program.stop());
  return program;
}

async function connect(relay: TestRelay): Promise<ExecServerClient> {
  const client = await connectWhenThere(relay);
  onTestFinished(() => client.close());
  return client;
}

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'remote-executor-'));
  onTestFinished(() => rmSync(path, { recursive: true }));
  return path;
}

const place = (relay: TestRelay) => ['--remote', relay.executorUrl, '--environment-id', ENVIRONMENT];

test('serves direct clients as well, and distinguishes their principals', async () => {
  const relay = await openRelay();
  const audit = join(folder(), 'audit');
  const flags = ['--listen', 'ws://127.0.0.1:0', '--metrics', '--audit-log', audit, '--name', 'box'];
  const executor = stopped(startExecutorProgram(relay, flags));
  const client = await connect(relay);
  const metrics = await fetch(`${executor.stdout().trim().replace('ws', 'http')}/metrics`);
  expect(await metrics.text()).toContain('exec_server_connections_total{transport="relay"} 1');
  await client.close();
  await executor.stop();
  const records = readFileSync(audit, 'utf8').trim().split('\n');
  const connected = records.map((line) => JSON.parse(line)).find(({ event }) => event === 'connected');
  expect(connected.who).toEqual({
    kind: 'harness',
    tokenId: expect.stringMatching(/^[0-9a-f]{16}$/),
    address: null,
  });
});

test('two streams of one executor have sessions of their own', async () => {
  const relay = await openRelay();
  stopped(startExecutorProgram(relay));
  const clients = [await connect(relay), await connect(relay)];
  expect(clients[0]!.sessionId).not.toBe(clients[1]!.sessionId);
  const processes = [];
  for (const [index, client] of clients.entries()) {
    processes.push(
      await client.backend.start({ ...shell('p', `read line; echo ${index} $line`), pipeStdin: true }),
    );
  }
  for (const [index, process] of processes.entries()) await process.write(`to ${index}\n`);
  for (const [index, process] of processes.entries()) {
    let text = '';
    for await (const event of process.events()) {
      if (event.type === 'output') text += Buffer.from(event.bytes);
    }
    expect(text).toBe(`${index} to ${index}\n`);
  }
  await clients[0]!.backend.start(shell('only here', 'sleep 600'));
  const { processes: others } = await clients[1]!.call('process/list', {});
  expect(others.map(({ processId }) => processId)).toEqual(['p']);
});

test("reports a response above the relay's message limit as an error, and keeps the connection", async () => {
  const { client, close } = await overRelay();
  onTestFinished(close);
  const file = join(folder(), 'large');
  writeFileSync(file, '');
  truncateSync(file, 60 * 1024 * 1024);
  await expect(client.call('fs/readFile', { path: `file://${file}` })).rejects.toThrow(
    'the configured maximum is 67108864',
  );
  expect(client.state).toBe('connected');
  expect(await client.call('environment/status', null)).toEqual({ status: 'ready' });
});

test('shuts down gracefully on a signal', async () => {
  const relay = await openRelay();
  const executor = stopped(startExecutorProgram(relay));
  const client = await connect(relay);
  const script = 'trap "exit 3" TERM; echo up; sleep 60 & wait';
  const process = await client.backend.start(shell('p', script));
  await waitFor('the program', () => process.revision > 0);
  executor.process.kill('SIGTERM');
  const exits: number[] = [];
  for await (const event of process.events()) {
    if (event.type !== 'exited') continue;
    exits.push(event.exitCode ?? -1);
    break;
  }
  expect(exits).toEqual([3]);
  expect(await executor.exited).toBe(0);
});

test('exits with a reason when the registry refuses', async () => {
  const relay = await openRelay();
  const executor = stopped(startBin(place(relay), { CODEX_API_KEY: 'made-up' }));
  expect(await executor.exited).toBe(1);
  expect(executor.stderr()).toMatch(
    /^exec-server: the registry 127\.0\.0\.1:\d+ answered register with HTTP 401/,
  );
});

test.each([
  [
    ['--remote', 'https://127.0.0.1:1', '--environment-id', 'e'],
    1,
    'remote exec-server registration requires ChatGPT authentication or API key authentication; run `codex login` or set CODEX_API_KEY',
  ],
  [['--remote', 'https://127.0.0.1:1'], 2, '--remote needs --environment-id'],
  [
    ['--remote', 'http://h', '--environment-id', 'e', '--executor-credential-stdin', '--listen', 'stdio'],
    2,
    'needs stdin',
  ],
  [['forward', '--remote', 'https://127.0.0.1:1', '--environment-id', 'e'], 2, '--connect is required'],
  [
    ['forward', '--connect', 'http://h', '--remote', 'https://h', '--environment-id', 'e'],
    2,
    'is not a ws:// or wss:// URL',
  ],
  [
    [
      ...['forward', '--connect', 'ws://h', '--remote', 'https://h', '--environment-id', 'e'],
      ...['--executor-credential-stdin', '--use-agent-identity-auth'],
    ],
    2,
    'cannot be combined',
  ],
  [
    ['forward', '--connect', 'ws://h', '--remote', 'http://192.0.2.3', '--environment-id', 'e'],
    2,
    "unless it is on this machine\nTry 'exec-server connect --help'",
  ],
  [['forward', '--nope'], 2, "exec-server connect: unknown flag '--nope'"],
])('rejects %j', async (args, code, why) => {
  const program = stopped(startBin(args, { CODEX_API_KEY: '', CODEX_HOME: folder() }));
  expect([await program.exited, program.stderr()]).toEqual([code, expect.stringContaining(why)]);
});

test('requires https for a registry on another machine', async () => {
  const program = stopped(
    startBin(['--remote', 'http://h.example', '--environment-id', 'e'], { CODEX_API_KEY: 'k' }),
  );
  expect([await program.exited, program.stderr()]).toEqual([
    2,
    expect.stringContaining('must begin with https://'),
  ]);
});

/** The line on stderr about a connection. */
const connectedTo = ({ executorUrl }: TestRelay) =>
  `exec-server: connected to ${new URL(executorUrl).host} as environment ${ENVIRONMENT}\n`;

const credential = (token: string, more: object = {}) =>
  `${JSON.stringify({
    version: 1,
    environment_id: ENVIRONMENT,
    token,
    expires_at: Math.floor(Date.now() / 1_000) + 600,
    ...more,
  })}\n`;

test('reads credentials from stdin, and exits when stdin ends', async () => {
  const relay = await openRelay();
  const executor = stopped(startBin([...place(relay), '--executor-credential-stdin']));
  executor.process.stdin!.write(credential(relay.token('executor')));
  const client = await connect(relay);
  expect(await client.call('environment/status', null)).toEqual({ status: 'ready' });
  executor.process.stdin!.end();
  expect([await executor.exited, executor.stdout(), executor.stderr()]).toEqual([0, '', connectedTo(relay)]);
});

test('exits immediately at an invalid credential line', async () => {
  const relay = await openRelay();
  const executor = stopped(startBin([...place(relay), '--executor-credential-stdin']));
  executor.process.stdin!.write(credential(relay.token('executor')));
  await connect(relay);
  executor.process.stdin!.write(credential('x', { version: 2 }));
  expect(await executor.exited).toBe(1);
  expect(executor.stderr()).toContain('invalid credential on stdin: its version is not 1');
});

test('exits with an error when stdin ends without a credential', async () => {
  const relay = await openRelay();
  const executor = stopped(startBin([...place(relay), '--executor-credential-stdin']));
  executor.process.stdin!.end();
  expect([await executor.exited, executor.stderr()]).toEqual([
    1,
    'exec-server: stdin ended before a credential arrived\n',
  ]);
});

test.each([
  [['--exit-on-stdin-close'], {}],
  [[], { CODEX_EXEC_SERVER_EXIT_ON_STDIN_CLOSE: '1' }],
])('with %j and %j exits when stdin ends', async (flags, env) => {
  const server = stopped(startBin(flags, env as unknown as Record<string, string>));
  await waitFor('the URL', () => server.stdout() !== '');
  server.process.stdin!.end();
  expect(await server.exited).toBe(0);
});

test('forwards to a server at another address', async () => {
  const relay = await openRelay();
  const server = await startServerProcess();
  onTestFinished(() => server.close());
  const forwarder = stopped(
    startBin(['forward', '--connect', server.url, ...place(relay)], {
      EXEC_SERVER_API_KEY: relay.token('executor'),
    }),
  );
  const client = await connect(relay);
  const text = 'x'.repeat(100_000);
  const { stdout } = await run(client.backend, ['/bin/echo', '-n', text]);
  expect(Buffer.from(stdout).toString()).toBe(text);
  await client.close();
  forwarder.process.kill('SIGTERM');
  expect([await forwarder.exited, forwarder.stderr()]).toEqual([0, connectedTo(relay)]);
});

test('serves an environment from the library API', async () => {
  const relay = await openRelay();
  const stop = new AbortController();
  const running = runRemoteEnvironment(
    {
      registryUrl: relay.executorUrl,
      environmentId: ENVIRONMENT,
      auth: bearerAuth(relay.token('executor')),
      server: { ...DEFAULT_CONFIG, listen: 'off', shutdownGracePeriodMs: 0 },
      log: createLogger('error', () => {}),
    },
    { signal: stop.signal },
  );
  const client = await connect(relay);
  expect(await client.call('environment/status', null)).toEqual({ status: 'ready' });
  stop.abort();
  await running;
});
