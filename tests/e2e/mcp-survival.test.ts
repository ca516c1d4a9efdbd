import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { startServer, TcpProxy, type TestServer } from '../../src/testing/index.ts';
import { connectMcp, type Generation, type McpClient } from '../support/mcp-client.ts';
import { processOf } from '../support/mcp-server.ts';
import { CommandUser } from '../support/private-server.ts';
import { ENVIRONMENT, type RunningProgram, startExecutorProgram, TestRelay } from '../support/relay.ts';

const LINES = 300;

const user = new CommandUser();
let server: TestServer;
let proxy: TcpProxy;
let relay: TestRelay;
let executor: RunningProgram;

beforeAll(async () => {
  server = await startServer();
  proxy = await TcpProxy.open(server.url);
  relay = await TestRelay.open();
  executor = startExecutorProgram(relay);
  const token = join(user.workspace.path, 'harness.token');
  writeFileSync(token, relay.token('harness'));
  const add = ['env', 'add', 'far', relay.harnessUrl, '--token-file', token, '--environment-id', ENVIRONMENT];
  expect((await user.run(add)).stderr).toContain('added');
});

afterAll(async () => {
  await executor?.stop();
  await relay?.close();
  await proxy?.close();
  await server?.close();
  await user.close();
});

function connect(generation: Generation, environment: string): Promise<McpClient> {
  const args = ['mcp', '-E', environment, '--root', '/tmp', '--sandbox', 'off'];
  return connectMcp(generation, {
    args,
    cwd: user.workspace.path,
    env: { HOME: user.workspace.path, ...user.env },
  });
}

/** Follows the output of a process by cursor. */
class Output {
  text = '';
  cursor = '0.0';

  async read(client: McpClient, process: string): Promise<string> {
    const { text, isError } = await client.call('read_output', { process, cursor: this.cursor });
    expect(isError, text).toBe(false);
    this.text += /^Output:\n([\s\S]*)$/m.exec(text)?.[1] ?? '';
    this.cursor = /^Next cursor: (\S+)$/m.exec(text)![1]!;
    return text;
  }

  /** Reads until the process has ended and nothing is left. */
  async finish(client: McpClient, process: string): Promise<string[]> {
    await client.call('wait_process', { process });
    for (let before = ''; before !== this.cursor; ) {
      before = this.cursor;
      await this.read(client, process);
    }
    return this.text.trim().split('\n');
  }
}

const ALL = Array.from({ length: LINES }, (_, index) => String(index + 1));

/** A job that prints one half of its lines, and the other after `go`. */
class Job {
  readonly process: string;
  readonly #signal: string;

  private constructor(process: string, signal: string) {
    this.process = process;
    this.#signal = signal;
  }

  static async start(client: McpClient): Promise<Job> {
    const signal = join(user.workspace.path, `go-${Math.random()}`);
    const half = LINES / 2;
    const cmd = `seq 1 ${half}; until [ -e ${signal} ]; do sleep 0.05; done; seq ${half + 1} ${LINES}`;
    const { text, isError } = await client.call('exec_command', { cmd, login: false, yield_time_ms: 250 });
    expect(isError, text).toBe(false);
    return new Job(processOf(text), signal);
  }

  go(): void {
    writeFileSync(this.#signal, '');
  }
}

/** A first client reads for a while and is gone; a second one reads on. */
async function survivesClients(environment: string, between: () => void = () => {}) {
  const output = new Output();
  const first = await connect('2025-11-25', environment);
  const job = await Job.start(first);
  await output.read(first, job.process);
  await first.close();
  between();
  const second = await connect('2026-07-28', environment);
  try {
    expect(await output.read(second, job.process)).toContain('running');
    job.go();
    expect(await output.finish(second, job.process)).toEqual(ALL);
  } finally {
    await second.close();
  }
}

test('a job on the private server survives the restart of the MCP client', () => survivesClients('local'));

test('a job behind a relay survives the restart of the MCP client and a cut connection', () =>
  survivesClients('far', () => relay.executorLink.drop()));

test('a job survives connections that are cut under the MCP server', async () => {
  const output = new Output();
  const client = await connect('2025-11-25', proxy.url);
  try {
    const job = await Job.start(client);
    await output.read(client, job.process);
    proxy.drop();
    expect(await output.read(client, job.process)).toContain('running');
    job.go();
    proxy.drop();
    expect(await output.finish(client, job.process)).toEqual(ALL);
  } finally {
    await client.close();
  }
});
