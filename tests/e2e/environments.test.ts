import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';
import { type WebSocket, WebSocketServer } from 'ws';
import {
  configuredEnvironments,
  type Environment,
  EnvironmentManager,
  type EnvironmentTransport,
  type ExecProcess,
  type ProvidedEnvironments,
  ThreadEnvironments,
  webSocketTransport,
} from '../../src/environment/index.ts';
import { DEFAULT_CONFIG } from '../../src/server/config/config.ts';
import { ExecServer } from '../../src/server/exec-server.ts';
import { startServer, startServerProcess, TcpProxy } from '../../src/testing/index.ts';
import { createMemoryPair } from '../../src/transport/memory.ts';
import { connectWebSocket } from '../../src/transport/websocket.ts';
import { plain, shell } from '../support/programs.ts';
import { waitFor } from '../support/wait-for.ts';

const BIN = fileURLToPath(new URL('../../dist/bin/exec-server.cjs', import.meta.url));
const STDIO: EnvironmentTransport = {
  type: 'stdio',
  program: process.execPath,
  args: [BIN, '--listen', 'stdio'],
};

let folder: string;
/** Cleanup functions, run in reverse order after a test. */
let ends: (() => unknown)[];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'environments-'));
  ends = [() => rmSync(folder, { recursive: true, force: true })];
});
afterEach(async () => {
  for (const end of ends.reverse()) await end();
});

function owned<T extends { close(): unknown }>(resource: T): T {
  ends.push(() => resource.close());
  return resource;
}

function manage(provided: Partial<ProvidedEnvironments> = {}): EnvironmentManager {
  const manager = new EnvironmentManager({
    environments: [],
    default: null,
    includeLocal: false,
    ...provided,
  });
  ends.push(() => manager.dispose());
  return manager;
}

async function outputOf(process: ExecProcess): Promise<string> {
  let text = '';
  for await (const event of process.events()) {
    if (event.type === 'output') text += new TextDecoder().decode(event.bytes);
    if (event.type === 'failed') throw event.error;
  }
  return text;
}

/** Runs a script there and returns its output. */
async function run(
  environment: Environment,
  script: string,
  env: Record<string, string> = {},
): Promise<string> {
  const params = shell(`p-${Math.random()}`, script);
  return outputOf(await environment.backend.start({ ...params, env: { ...plain.env, ...env } }));
}

test('environments.toml: two servers, a program and this machine, each with processes and files', async () => {
  const a = owned(await startServerProcess());
  const b = owned(await startServerProcess());
  writeFileSync(
    join(folder, 'environments.toml'),
    [
      'default = "b"',
      `[[environments]]\nid = "a"\nurl = "${a.url}"`,
      `[[environments]]\nid = "b"\nurl = " ${b.url} "`,
      `[[environments]]\nid = "c"\nprogram = ${JSON.stringify(process.execPath)}`,
      `args = ${JSON.stringify([BIN, '--listen', 'stdio'])}\nenv = { MARK = "of c" }\ncwd = "."`,
    ].join('\n'),
  );
  const provider = configuredEnvironments({ env: {}, codexHome: folder });
  const manager = await EnvironmentManager.open(provider);
  ends.push(() => manager.dispose());
  expect(manager.ids).toEqual(['b', 'local', 'a', 'c']);

  expect(await manager.status('c')).toEqual({ status: 'pending', error: null });
  const serverPids: string[] = [];
  for (const id of manager.ids) {
    const environment = manager.require(id);
    serverPids.push((await run(environment, 'echo $PPID')).trim());
    const file = pathToFileURL(join(folder, `made by ${id}`)).href;
    await environment.fileSystem.writeFile(file, `hello ${id}`);
    expect(await environment.passiveFileSystem.readFileText(file)).toBe(`hello ${id}`);
    expect((await environment.info()).shell.path).toMatch(/^\//);
    expect(await manager.status(id)).toEqual({ status: 'ready', error: null });
    expect(environment.readiness).toEqual({ ready: true });
  }
  expect(new Set(serverPids).size).toBe(4);
  expect(serverPids[manager.ids.indexOf('a')]).toBe(String(a.process.pid));
  expect(serverPids[manager.ids.indexOf('b')]).toBe(String(b.process.pid));
  expect((await manager.info('c')).cwd).toBe(pathToFileURL(folder).href);
});

test('CODEX_EXEC_SERVER_URL or config.toml makes processes and files remote', async () => {
  const server = owned(await startServerProcess());
  writeFileSync(join(folder, 'config.toml'), `[exec_server]\nurl = "${server.url}"\n`);
  for (const env of [{}, { CODEX_EXEC_SERVER_URL: server.url }]) {
    const manager = await EnvironmentManager.open(configuredEnvironments({ env, codexHome: folder }));
    ends.push(() => manager.dispose());
    expect(manager.ids).toEqual(['remote']);
    expect(await run(manager.default!, 'echo $PPID')).toBe(`${server.process.pid}\n`);
    // The first field of this file is the pid of the process that reads it.
    const { fileSystem, passiveFileSystem } = manager.default!;
    for (const reader of [fileSystem, passiveFileSystem]) {
      expect(Number.parseInt(await reader.readFileText('file:///proc/self/stat'), 10)).toBe(
        server.process.pid,
      );
    }
    expect(await manager.status('local')).toEqual({ status: 'unknown', error: null });
  }
});

test('connects to a server that starts later', async () => {
  const proxy = owned(await TcpProxy.open(owned(await startServer()).url));
  proxy.interrupt();
  const manager = manage({ environments: [{ id: 'a', transport: { type: 'websocket', url: proxy.url } }] });
  const environment = manager.require('a');
  await waitFor('the first attempt to fail', () => environment.startupFinished);
  expect(environment.readiness).toMatchObject({
    ready: false,
    error: { kind: 'connectFailed', retryable: true },
  });
  expect(await manager.status('a')).toMatchObject({ status: 'disconnected' });
  await expect(run(environment, 'echo no')).rejects.toMatchObject({ kind: 'connectFailed' });
  proxy.restore();
  expect(await run(environment, 'echo yes')).toBe('yes\n');
  expect(await manager.status('a')).toEqual({ status: 'ready', error: null });
});

test('reports an invalid URL in the status permanently', async () => {
  const manager = manage();
  for (const url of ['http://127.0.0.1:1', 'nonsense', 'ws://127.0.0.1:1/?role=harness']) {
    const environment = manager.add('a', { type: 'websocket', url });
    await waitFor('the attempt to fail', () => environment.startupFinished);
    expect((await manager.status('a')).status).toBe('disconnected');
    await expect(environment.waitUntilReady()).rejects.toMatchObject({ kind: 'config', retryable: false });
  }
});

test('callers keep using a replaced handle until they are done', async () => {
  const a = owned(await startServerProcess());
  const b = owned(await startServerProcess());
  const manager = manage({ environments: [{ id: 'x', transport: { type: 'websocket', url: a.url } }] });
  const old = manager.require('x');
  const reader = await old.backend.start({ ...shell('reader', 'cat'), pipeStdin: true });

  const replacement = manager.add('x', { type: 'websocket', url: b.url });
  expect(await run(manager.require('x'), 'echo $PPID')).toBe(`${b.process.pid}\n`);
  expect(await run(old, 'echo $PPID')).toBe(`${a.process.pid}\n`);
  expect(old.connection.connected).toBe(true);
  await reader.write('still there');
  await reader.closeStdin();
  expect(await outputOf(reader)).toBe('still there');

  await waitFor('the old connection to close', () => !old.connection.connected);
  expect(await run(old, 'echo $PPID')).toBe(`${a.process.pid}\n`);
  await waitFor('the old connection to close again', () => !old.connection.connected);
  expect(replacement.connection).toEqual({ connected: true, reason: null });
});

test('turns switch to a replacement when it is ready', async () => {
  const a = owned(await startServerProcess());
  const proxy = owned(await TcpProxy.open(owned(await startServerProcess()).url));
  const manager = manage({ environments: [{ id: 'x', transport: { type: 'websocket', url: a.url } }] });
  const old = manager.require('x');
  const thread = new ThreadEnvironments(manager);
  thread.select([{ environmentId: 'x', cwd: 'file:///' }]);
  const first = await thread.beginTurn();
  expect(first.primary?.shell?.path).toMatch(/^\//);

  proxy.interrupt();
  const replacement = manager.add('x', { type: 'websocket', url: proxy.url });
  await waitFor('the first attempt to fail', () => replacement.startupFinished);
  expect((await thread.beginTurn()).primary?.environment).toBe(old);
  proxy.restore();
  await thread.beginTurn();
  await waitFor('the replacement to be ready', () => replacement.readiness?.ready);
  expect((await thread.beginTurn()).primary?.environment).toBe(replacement);
  await waitFor('the old connection to close', () => !old.connection.connected);
  expect(await run(first.choose().environment, 'echo $PPID')).toBe(`${a.process.pid}\n`);
  thread.dispose();
});

test('opens a new session after the server was restarted', async () => {
  const proxy = owned(await TcpProxy.open(owned(await startServer()).url));
  const successor = owned(await startServer());
  let url = proxy.url;
  const manager = manage();
  const environment = manager.add('x', {
    type: 'opener',
    resumable: true,
    open: (signal) => connectWebSocket(url, { signal }),
  });
  const process = await environment.backend.start(shell('p', 'sleep 60'));
  const states: boolean[] = [];
  environment.watchConnection(({ connected }) => states.push(connected));
  url = successor.url;
  proxy.interrupt();
  await expect(outputOf(process)).rejects.toMatchObject({ name: 'ClientError' });
  await waitFor('the session to be given up', () => environment.readiness?.ready === false);
  expect(environment.connection.reason).toContain('could not be restored');
  expect(await run(environment, 'echo again')).toBe('again\n');
  expect(states[0]).toBe(true);
  expect(states.at(-1)).toBe(true);
  expect(states).toContain(false);
});

test('the first use starts a server on stdio, and only restart starts it again after its exit', async () => {
  const manager = manage({ environments: [{ id: 'x', transport: STDIO }] });
  const environment = manager.require('x');
  expect(environment.connection).toEqual({ connected: false, reason: 'it was not started' });
  const pid = Number(await run(environment, 'echo $PPID'));
  process.kill(pid, 'SIGKILL');
  await waitFor('its end to be noticed', () => environment.readiness?.ready === false);
  const failure = await environment.waitUntilReady().catch((error: unknown) => error);
  await expect(run(environment, 'echo no')).rejects.toBe(failure);
  expect(await manager.status('x')).toMatchObject({ status: 'disconnected' });
  await environment.restart();
  expect(Number(await run(environment, 'echo $PPID'))).not.toBe(pid);
});

test('every use of a missing stdio server fails', async () => {
  const manager = manage({
    environments: [{ id: 'x', transport: { type: 'stdio', program: '/no/such/program' } }],
  });
  const environment = manager.require('x');
  const failure = await environment.waitUntilReady().catch((error: unknown) => error);
  expect(failure).toMatchObject({ kind: 'spawn' });
  await expect(environment.waitUntilReady()).rejects.toBe(failure);
});

test('an executor that connects to the host can reconnect', async () => {
  const executor = new ExecServer({ ...DEFAULT_CONFIG, shutdownGracePeriodMs: 0 });
  owned(executor);
  const host = new WebSocketServer({ host: '127.0.0.1', port: 0 });
  ends.push(() => host.close());
  await once(host, 'listening');
  const dial = async () => {
    const arrived = once(host, 'connection') as Promise<[WebSocket]>;
    void executor.accept(await connectWebSocket(`ws://127.0.0.1:${(host.address() as AddressInfo).port}`));
    return webSocketTransport((await arrived)[0]);
  };
  const manager = manage();
  const environment = manager.accept('x', await dial());
  const process = await environment.backend.start({ ...shell('p', 'cat'), pipeStdin: true });
  await process.write('one ');
  manager.replaceSocket('x', await dial());
  expect(environment.connection.connected).toBe(false);
  await process.write('two');
  await process.closeStdin();
  expect(await outputOf(process)).toBe('one two');
  expect(environment.connection).toEqual({ connected: true, reason: null });
});

test('replaceSocket requires an accepted environment with a session', async () => {
  const server = owned(await startServer());
  const manager = manage({
    includeLocal: true,
    environments: [{ id: 'a', transport: { type: 'websocket', url: server.url } }],
  });
  const socket = () => createMemoryPair()[0];
  expect(() => manager.replaceSocket('nobody', socket())).toThrow("there is no environment 'nobody'");
  expect(() => manager.replaceSocket('local', socket())).toThrow('opens its connections itself');
  expect(() => manager.replaceSocket('a', socket())).toThrow('opens its connections itself');
  manager.accept('silent', socket());
  expect(() => manager.replaceSocket('silent', socket())).toThrow('it has no session');
});

/** Runs a program that has the local environment as `local` and a folder as `root`; it disposes of nothing. */
function runLocalProgram(script: string) {
  const program = join(folder, 'program.mjs');
  const entry = new URL('../../dist/environment/index.js', import.meta.url).href;
  const root = pathToFileURL(folder).href;
  writeFileSync(
    program,
    `import { LocalEnvironment } from '${entry}'; const local = new LocalEnvironment(); const root = '${root}';\n${script}`,
  );
  const child = spawn(process.execPath, [program], { stdio: ['ignore', 'pipe', 'inherit'] });
  ends.push(() => child.kill('SIGKILL'));
  let output = '';
  child.stdout.setEncoding('utf8').on('data', (text) => {
    output += text;
  });
  return { child, output: () => output, exited: once(child, 'exit') };
}

test('an idle local environment does not keep Node alive', async () => {
  const { exited, output } = runLocalProgram(`
    await local.fileSystem.writeFile(root + '/file', 'x');
    await local.fileSystem.readFile(root + '/file');
    const { run } = await import('${new URL('../../dist/client/index.js', import.meta.url).href}');
    console.log((await run(local.backend, ['echo', 'done'])).text.stdout);
  `);
  expect(await exited).toEqual([0, null]);
  expect(output()).toBe('done\n\n');
});

test('a watch of the local environment keeps Node alive until it is closed', async () => {
  const { exited, output, child } = runLocalProgram(`
    const watch = await local.fileSystem.watch(root, { debounceMs: 1 });
    console.log('watching');
    for await (const { changes } of watch) if (changes.some(({ path }) => path.endsWith('/end'))) break;
    console.log('closed');
  `);
  await waitFor('the watch', () => output() === 'watching\n');
  await new Promise((resolve) => setTimeout(resolve, 300));
  expect(child.exitCode).toBeNull();
  writeFileSync(join(folder, 'end'), '');
  expect(await exited).toEqual([0, null]);
  expect(output()).toBe('watching\nclosed\n');
});
