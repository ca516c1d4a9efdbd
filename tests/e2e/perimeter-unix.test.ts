import { existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, expect, test } from 'vitest';
import { ExecServerClient } from '../../src/client/client.ts';
import { type ServerProcess, startServerProcess, TestClient } from '../../src/testing/index.ts';
import { shell } from '../support/programs.ts';
import { waitFor } from '../support/wait-for.ts';

const folder = mkdtempSync(join(tmpdir(), 'unix-socket-'));
const servers: ServerProcess[] = [];
afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server.close()));
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function start(path: string, ...flags: string[]): Promise<ServerProcess> {
  const server = await startServerProcess(['--listen', `unix://${path}`, ...flags]);
  servers.push(server);
  return server;
}

function freshPath(name: string): string {
  return join(mkdtempSync(join(folder, 'place-')), name);
}

test('creates a socket for its user only and removes it at the end', async () => {
  const path = freshPath('a socket:with % odd name');
  const server = await start(path);
  expect(server.url).toBe(`unix://${path}`);
  expect(statSync(path).mode & 0o777).toBe(0o600);
  const client = await server.connect();
  await client.call('process/start', shell('p', 'echo served'));
  expect((await client.closedProcess('p')).text()).toBe('served\n');
  await expect(TestClient.connect(server.url, { host: 'elsewhere.example' })).resolves.toBeDefined();
  await client.close();
  const library = await ExecServerClient.connect({ url: server.url });
  expect(library.sessionId).toMatch(/^[0-9a-f-]{36}$/);
  await library.close();
  await server.close();
  expect(server.process.exitCode).toBe(0);
  expect(existsSync(path)).toBe(false);
});

test('replaces the socket of a killed server, but not of a running one', async () => {
  const path = freshPath('s');
  const killed = await start(path);
  killed.process.kill('SIGKILL');
  await waitFor('the end', () => killed.process.signalCode !== null);
  expect(existsSync(path)).toBe(true);
  const server = await start(path);
  await expect(startServerProcess(['--listen', server.url])).rejects.toThrow('another server listens on');
  const client = await server.connect();
  expect(await client.call('environment/status', {})).toEqual({ status: 'ready' });
});

test.each<[string, (path: string) => void, string]>([
  ['a file that is no socket', (path) => writeFileSync(path, 'kept'), 'is not a socket'],
  ['a folder that is not there', (path) => rmSync(join(path, '..'), { recursive: true }), 'does not exist'],
])('refuses %s and leaves it unchanged', async (_name, prepare, message) => {
  const path = freshPath('s');
  prepare(path);
  await expect(startServerProcess(['--listen', `unix://${path}`])).rejects.toThrow(message);
});

test('refuses a path that is longer than the system allows', async () => {
  await expect(startServerProcess(['--listen', `unix:///tmp/${'x'.repeat(120)}`])).rejects.toThrow(
    'the system allows 107',
  );
});
