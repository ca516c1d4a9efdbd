import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { WebSocket } from 'ws';
import {
  DiscoveryCache,
  EnvironmentManager,
  McpRuntime,
  type McpRuntimeOptions,
  projectSkills,
  resolveStepRoots,
  type StepMcpServers,
  selectRoot,
  ThreadEnvironments,
  webSocketTransport,
} from '../../src/environment/index.ts';
import { MCP_RESTARTS } from '../../src/environment/limits.ts';
import { type ServerProcess, startServerProcess } from '../../src/testing/index.ts';
import { isAlive } from '../support/machine.ts';
import { MessageProxy } from '../support/message-proxy.ts';
import { waitFor } from '../support/wait-for.ts';

const FIXTURE = fileURLToPath(new URL('../fixtures/mcp-server.mjs', import.meta.url));
const PROGRAM = { command: process.execPath, args: [FIXTURE] };

const cleanUps: (() => unknown)[] = [];
let folder: string;
let manager: EnvironmentManager;
beforeEach(() => {
  folder = realpathSync(mkdtempSync(join(tmpdir(), 'mcp-runtime-')));
  cleanUps.push(() => rmSync(folder, { recursive: true, force: true }));
  manager = new EnvironmentManager({ environments: [], default: null, includeLocal: true });
  cleanUps.push(() => manager.dispose());
});
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

/** Writes a plugin that declares the servers, and a skill. */
function writePlugin(servers: object, manifest: object = { name: 'tools' }): void {
  mkdirSync(join(folder, '.codex-plugin'), { recursive: true });
  writeFileSync(join(folder, '.codex-plugin', 'plugin.json'), JSON.stringify(manifest));
  writeFileSync(join(folder, '.mcp.json'), JSON.stringify({ mcpServers: servers }));
  writeFileSync(join(folder, 'SKILL.md'), '---\nname: count\ndescription: counts\n---\n');
}

/** An executor that runs as its own process, and a proxy that records its messages. */
async function startExecutor(): Promise<{ server: ServerProcess; proxy: MessageProxy }> {
  const env = { EXECUTOR_KEY: 'from the executor', EXECUTOR_OTHER: 'secret' };
  const server = await startServerProcess(['--listen', 'ws://127.0.0.1:0'], env);
  cleanUps.push(() => server.close());
  const proxy = await MessageProxy.open(server.url);
  cleanUps.push(() => proxy.close());
  return { server, proxy };
}

/** How many requests for files and capabilities an executor got. */
function reads({ proxy }: { proxy: MessageProxy }): number {
  return proxy.log.filter(({ text }) => /"method":"(?:capabilit|fs\/)/.test(text)).length;
}

async function connect(transport: object): Promise<Client> {
  const client = new Client({ name: 'test', version: '1' });
  await client.connect(transport as never);
  return client;
}

/** A thread that selected the plugin in an environment. */
class Thread {
  readonly selected;
  readonly cache = new DiscoveryCache();
  readonly runtime: McpRuntime<Client>;
  readonly environments = new ThreadEnvironments(manager);

  constructor(environmentId: string, options: Partial<McpRuntimeOptions<Client>> = {}) {
    this.selected = [selectRoot({ id: 'tools@1', environmentId, path: folder })];
    this.environments.select([{ environmentId, cwd: 'file:///' }]);
    this.runtime = new McpRuntime({ connect, ...options });
    cleanUps.push(async () => {
      await this.runtime.dispose();
      this.environments.dispose();
    });
  }

  async discover() {
    const { captured } = await this.environments.beginTurn();
    return this.cache.discover(
      await resolveStepRoots({ threadRoots: this.selected, captured, registry: manager }),
    );
  }

  async step(): Promise<StepMcpServers<Client>> {
    return this.runtime.update(await this.discover());
  }

  /** The tool's answer from the only server of a step. */
  async ask(name: string, args: Record<string, unknown> = {}): Promise<string> {
    const { servers } = await this.step();
    expect(servers).toMatchObject([{ state: 'ready', error: null }]);
    return answerOf(servers[0]!.client!, name, args);
  }
}

async function answerOf(client: Client, name: string, args: Record<string, unknown> = {}): Promise<string> {
  const { content } = await client.callTool({ name, arguments: args });
  return (content as { text: string }[])[0]!.text;
}

describe('a declared program', () => {
  test('runs in the plugin with the declared variables, and ends with the runtime', async () => {
    writePlugin({
      counter: { ...PROGRAM, env: { MODE: 'fast' }, env_vars: ['EXECUTOR_KEY'], cwd: './work' },
    });
    mkdirSync(join(folder, 'work'));
    manager.add('worker', { type: 'websocket', url: (await startExecutor()).proxy.url });
    const heard: string[] = [];
    const thread = new Thread('worker', {
      onStderr: ({ plugin, name }, bytes) => heard.push(`${plugin} ${name} ${Buffer.from(bytes)}`),
    });
    const { servers, warnings } = await thread.step();
    expect(warnings).toEqual([]);
    expect(servers).toMatchObject([
      { plugin: 'tools@1', name: 'counter', environmentId: 'worker', state: 'ready', error: null },
    ]);
    const client = servers[0]!.client!;
    expect(await answerOf(client, 'variable', { name: 'MODE' })).toBe('fast');
    expect(await answerOf(client, 'variable', { name: 'EXECUTOR_KEY' })).toBe('from the executor');
    expect(await answerOf(client, 'variable', { name: 'EXECUTOR_OTHER' })).toBe('not set');
    expect(await answerOf(client, 'cwd')).toBe(join(folder, 'work'));
    expect(heard).toEqual(['tools@1 counter ready\n']);
    const pid = Number(await answerOf(client, 'pid'));
    expect(await thread.ask('pid')).toBe(String(pid));
    await thread.runtime.dispose();
    expect(isAlive(pid)).toBe(false);
    await expect(thread.step()).rejects.toMatchObject({ kind: 'closed' });
  });

  test('moves with a replaced handle, and nothing is read again', async () => {
    writePlugin({ counter: PROGRAM });
    const [first, second] = [await startExecutor(), await startExecutor()];
    manager.add('worker', { type: 'websocket', url: first.proxy.url });
    const thread = new Thread('worker');
    const pid = Number(await thread.ask('pid'));
    expect(reads(first)).toBe(1);

    // A declaration that is read again would fail.
    writeFileSync(join(folder, '.mcp.json'), 'not JSON');
    rmSync(join(folder, 'SKILL.md'));
    const replacement = manager.add('worker', { type: 'websocket', url: second.proxy.url });
    await replacement.waitUntilReady();
    const newPid = Number(await thread.ask('pid'));
    expect(newPid).not.toBe(pid);
    expect(isAlive(pid)).toBe(false);
    const { skills } = await projectSkills({
      selected: thread.selected,
      discovered: await thread.discover(),
      cache: thread.cache,
    });
    expect(skills).toMatchObject([{ name: 'tools:count', available: true, environment: replacement }]);
    expect([reads(first), reads(second)]).toEqual([1, 0]);
  });

  test('is restarted when its executor restarts behind the same handle', async () => {
    writePlugin({ counter: PROGRAM });
    let executor = await startExecutor();
    manager.add('worker', {
      type: 'opener',
      resumable: true,
      async open() {
        const socket = new WebSocket(executor.proxy.url);
        await once(socket, 'open');
        return webSocketTransport(socket as never);
      },
    });
    const thread = new Thread('worker');
    const pid = await thread.ask('pid');
    const before = executor;
    executor = await startExecutor();
    before.server.process.kill('SIGKILL');
    const newPid = await waitFor(
      'the restarted server',
      async () => {
        const { servers } = await thread.step();
        const client = servers[0]?.client;
        const answer = client && (await answerOf(client, 'pid').catch(() => null));
        return answer !== pid && answer;
      },
      60_000,
    );
    expect(newPid).toMatch(/^\d+$/);
    expect(reads(executor)).toBe(0);
    await waitFor('the end of the old server', () => !isAlive(Number(pid)));
  });

  test('is restarted when it exits', async () => {
    writePlugin({ counter: PROGRAM });
    const thread = new Thread('local');
    const pid = await thread.ask('pid');
    await expect(thread.ask('exit')).rejects.toThrow();
    const newPid = await waitFor('the restart', async () => {
      const { servers } = await thread.step();
      // The step may come before the end is noticed.
      return servers[0]!.client && answerOf(servers[0]!.client, 'pid').catch(() => null);
    });
    expect(newPid).not.toBe(pid);
  });

  test.each([
    ['a child process', 'sleep 1000 &'],
    ['a child process in its own session', 'setsid sleep 1000 &'],
  ])('that exits and leaves %s behind is restarted without it', async (_name, child) => {
    const pids = join(folder, 'pids');
    // Only the first server exits. It leaves a process that keeps its output open.
    const script =
      `[ -e ${pids} ] && exec '${process.execPath}' '${FIXTURE}'; ` +
      `${child} echo $! > ${pids}; read line; printf '{"jsonrpc":"2.0","method":"seen"}\\n'; exit 5`;
    writePlugin({ counter: { command: 'bash', args: ['-c', script] } });
    const received: object[] = [];
    let starts = 0;
    const thread = new Thread('local', {
      connect: async (transport) => {
        if (++starts > 1) return connect(transport);
        transport.onmessage = (message) => received.push(message);
        await transport.start();
        await transport.send({});
        return null as never;
      },
    });
    await thread.step();
    const pid = await waitFor(
      'the restart',
      async () => {
        const client = (await thread.step()).servers[0]!.client;
        return client && answerOf(client, 'pid');
      },
      60_000,
    );
    expect(pid).toMatch(/^\d+$/);
    expect(received).toEqual([{ jsonrpc: '2.0', method: 'seen' }]);
    const left = Number(readFileSync(pids, 'utf8'));
    await waitFor('the end of the process that was left behind', () => !isAlive(left));
  });

  test('that always fails is restarted a limited number of times, and does not affect others', async () => {
    const log = join(folder, 'starts');
    writePlugin({
      broken: { command: 'sh', args: ['-c', `echo start >> ${log}; exit 7`] },
      missing: { command: '/no/such/program' },
      works: PROGRAM,
    });
    const thread = new Thread('local');
    const step = await thread.step();
    expect(step.servers.map(({ name, client }) => [name, client !== null])).toEqual([
      ['broken', false],
      ['missing', false],
      ['works', true],
    ]);
    expect(step.servers[1]!.error?.message).toMatch(
      /^MCP server 'missing' of plugin 'tools@1' in environment 'local': .*\/no\/such\/program/,
    );
    const states = await waitFor(
      'the failures',
      async () => {
        const { servers } = await thread.step();
        return servers.filter(({ state }) => state === 'failed').length === 2 ? servers : null;
      },
      60_000,
    );
    expect(states![0]!.error?.message).toBe(
      "MCP server 'broken' of plugin 'tools@1' in environment 'local': it exited with code 7",
    );
    expect(states![2]).toMatchObject({ name: 'works', state: 'ready' });
    const starts = readFileSync(log, 'utf8').trim().split('\n').length;
    expect(starts).toBe(MCP_RESTARTS + 1);
    await thread.step();
    expect(readFileSync(log, 'utf8').trim().split('\n')).toHaveLength(starts);
  });

  test('ends when its environment is not part of a step, and starts again with it', async () => {
    writePlugin({ counter: PROGRAM });
    const thread = new Thread('local');
    const pid = Number(await thread.ask('pid'));
    expect(await thread.runtime.update([])).toEqual({ servers: [], warnings: [] });
    await waitFor('the end of the server', () => !isAlive(pid));
    expect(Number(await thread.ask('pid'))).not.toBe(pid);
  });

  test('that ignores the end of its stdin is terminated', async () => {
    const pidFile = join(folder, 'pid');
    const script = `echo $$ > ${pidFile}; trap '' TERM; while :; do sleep 1; done`;
    writePlugin({ stubborn: { command: 'bash', args: ['-c', script] } });
    const thread = new Thread('local', { connect: async (transport) => transport.start() as never });
    expect((await thread.step()).servers).toMatchObject([{ state: 'ready' }]);
    const pid = await waitFor('its pid', () => {
      try {
        return Number(readFileSync(pidFile, 'utf8'));
      } catch {
        return 0;
      }
    });
    await thread.runtime.dispose();
    expect(isAlive(pid)).toBe(false);
  });

  test('that is still starting ends with the runtime', async () => {
    const pidFile = join(folder, 'pid');
    writePlugin({ silent: { command: 'bash', args: ['-c', `echo $$ > ${pidFile}; exec cat > /dev/null`] } });
    const thread = new Thread('local');
    const { servers } = await thread.runtime.update(await thread.discover(), { wait: false });
    expect(servers).toMatchObject([{ state: 'starting', client: null, error: null }]);
    const waiting = thread.runtime.update(await thread.discover(), { timeoutMs: 1 });
    await expect(waiting).rejects.toMatchObject({ kind: 'timeout' });
    const pid = await waitFor('its pid', () => {
      try {
        return Number(readFileSync(pidFile, 'utf8'));
      } catch {
        return 0;
      }
    });
    await thread.runtime.dispose();
    expect(isAlive(pid)).toBe(false);
  });
});

describe('a declared server over HTTP', () => {
  async function startWebServer(): Promise<{ url: string; child: ChildProcess }> {
    const child = spawn(process.execPath, [FIXTURE, 'http'], { stdio: ['ignore', 'pipe', 'inherit'] });
    cleanUps.push(async () => {
      const gone = child.exitCode === null ? once(child, 'exit') : null;
      child.kill('SIGKILL');
      await gone;
    });
    const [url] = await once(createInterface({ input: child.stdout }), 'line');
    return { url, child };
  }

  test('is reached through the handle, and again through its replacement', async () => {
    const { url, child } = await startWebServer();
    writePlugin({ web: { type: 'http', url: `${url}/mcp` } });
    const [first, second] = [await startExecutor(), await startExecutor()];
    const requests = ({ proxy }: typeof first) =>
      proxy.log.filter(({ text }) => text.includes('"method":"http/request"')).length;
    manager.add('worker', { type: 'websocket', url: first.proxy.url });
    const thread = new Thread('worker');
    expect(await thread.ask('pid')).toBe(String(child.pid));
    expect(requests(first)).toBeGreaterThan(0);
    await manager.add('worker', { type: 'websocket', url: second.proxy.url }).waitUntilReady();
    expect(await thread.ask('pid')).toBe(String(child.pid));
    expect(requests(second)).toBeGreaterThan(0);
    expect([reads(first), reads(second)]).toEqual([1, 0]);
  });

  test('gets a new session after it has ended the old one', async () => {
    const { url } = await startWebServer();
    writePlugin({ web: { url: `${url}/mcp` } });
    const thread = new Thread('local');
    await thread.ask('pid');
    await fetch(`${url}/forget`);
    await expect(thread.ask('pid')).rejects.toThrow();
    const answer = await waitFor('the new session', async () => {
      const { servers } = await thread.step();
      return servers[0]!.client && answerOf(servers[0]!.client, 'pid').catch(() => null);
    });
    expect(answer).toMatch(/^\d+$/);
  });
});
