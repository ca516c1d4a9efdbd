import { afterEach, describe, expect, test } from 'vitest';
import { type ServerProcess, startServer, startServerProcess, TestClient } from '../../src/testing/index.ts';
import { processesWith } from '../support/machine.ts';
import { shell } from '../support/programs.ts';
import { waitFor } from '../support/wait-for.ts';

const servers: { close(): Promise<void> }[] = [];
afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
});

async function status(url: string, path: string, init?: RequestInit): Promise<number> {
  return (await fetch(url.replace('ws:', 'http:') + path, init)).status;
}

describe('the listener', () => {
  test('answers probes, and refuses browsers and unknown paths', async () => {
    const server = await startServer();
    servers.push(server);
    expect(await status(server.url, '/readyz')).toBe(200);
    expect(await status(server.url, '/healthz')).toBe(200);
    expect(await status(server.url, '/readyz', { method: 'POST' })).toBe(405);
    expect(await status(server.url, '/elsewhere')).toBe(404);
    expect(await status(server.url, '/')).toBe(400);
    expect(await status(server.url, '/readyz', { headers: { origin: 'http://evil.example' } })).toBe(403);
    await expect(TestClient.connect(server.url, { origin: 'http://evil.example' })).rejects.toThrow('403');
    await expect(TestClient.connect(`${server.url}/elsewhere`)).rejects.toThrow('404');
  });

  test('refuses connections beyond the configured number, and accepts again after one is closed', async () => {
    const server = await startServer({ maxConnections: 2 });
    servers.push(server);
    const [first] = [await server.connect(), await server.connect()];
    await expect(server.connect()).rejects.toThrow('503');
    await first!.close();
    await expect
      .poll(() =>
        server.connect().then(
          () => true,
          () => false,
        ),
      )
      .toBe(true);
  });
});

describe('shutdown', () => {
  async function startStubborn(flags: readonly string[], mark: string): Promise<[ServerProcess, TestClient]> {
    const server = await startServerProcess(flags);
    const client = await server.connect();
    const script = `trap 'echo asked' TERM; echo up; while :; do sleep ${mark}; done`;
    await client.call('process/start', shell('p', script));
    await client.waitFor((message) => message.method === 'process/output');
    return [server, client];
  }

  test('a draining server is not ready and accepts no clients, but serves the connected ones', async () => {
    const [server, client] = await startStubborn(['--shutdown-grace-period', '60s'], '0.011');
    server.process.kill('SIGTERM');
    await waitFor('the drain', async () => (await status(server.url, '/readyz')) === 503);
    expect(await status(server.url, '/healthz')).toBe(200);
    await expect(TestClient.connect(server.url)).rejects.toThrow('503');
    await waitFor('the program to be asked to end', () => client.process('p').text().includes('asked'));
    expect(await client.call('environment/status', {})).toEqual({ status: 'ready' });
    await client.call('process/terminate', { processId: 'p' });
    expect((await client.closedProcess('p')).exitCode).toBe(137);
    expect(await client.closed).toMatchObject({
      code: 1001,
      reason: expect.stringContaining('shutting down'),
    });
    await waitFor('the exit', () => server.process.exitCode !== null);
    expect(server.process.exitCode).toBe(0);
  });

  test('a second signal ends the server immediately and leaves no process', async () => {
    const mark = `0.0${process.pid}`;
    const [server] = await startStubborn(['--shutdown-grace-period', '60s'], mark);
    server.process.kill('SIGINT');
    await waitFor('the drain', async () => (await status(server.url, '/readyz')) === 503);
    server.process.kill('SIGTERM');
    await waitFor('the exit', () => server.process.exitCode !== null);
    expect(server.process.exitCode).toBe(1);
    await waitFor('the program to end', () => processesWith(`sleep ${mark}`).length === 0);
  });

  test('writes nothing but the URL to stdout', async () => {
    const server = await startServerProcess(['--log-level', 'debug']);
    let stdout = '';
    server.process.stdout?.on('data', (chunk: Buffer) => {
      stdout += chunk;
    });
    const client = await server.connect();
    client.notify('unknown');
    await client.closed;
    await server.close();
    expect(stdout).toBe('');
    expect(server.stderr()).toContain('protocol violation');
  });
});

describe('capabilities', () => {
  test('are true only for methods that exist', async () => {
    const server = await startServer();
    servers.push(server);
    const client = await server.connect();
    const { capabilities } = await client.call('environment/info', {});
    const { METHODS } = await import('../../src/protocol/registry.ts');
    for (const [method, { capability }] of Object.entries(METHODS)) {
      if (capability === undefined) continue;
      expect(capabilities[capability]).toBe(true);
      const code = await client.request(method, 5).catch((error: { code: number }) => error.code);
      expect(code).toBe(-32602);
    }
  });
});
