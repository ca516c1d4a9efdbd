import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { connect, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { afterAll, afterEach, describe, expect, test } from 'vitest';
import { startServer as startProgram } from '../../scripts/reference.mjs';
import type { ResultOf } from '../../src/protocol/registry.ts';
import { signToken } from '../../src/server/auth/signed-token.ts';
import type { ExecServerConfig } from '../../src/server/config/config.ts';
import { startServer, TestClient, type TestServer } from '../../src/testing/index.ts';
import { base64, shell } from '../support/programs.ts';
import { waitFor } from '../support/wait-for.ts';

const folder = mkdtempSync(join(tmpdir(), 'limits-'));
const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function start(config: Partial<ExecServerConfig>): Promise<TestServer> {
  const server = await startServer(config);
  cleanups.push(() => server.close());
  return server;
}

function fileOf(name: string, bytes: number): string {
  const path = join(folder, name);
  writeFileSync(path, Buffer.alloc(bytes, 'x'));
  return pathToFileURL(path).href;
}

const ready = (client: TestClient) => client.call('environment/status', {});

describe('connections', () => {
  test('accepts the maximum number at the same moment', async () => {
    const server = await start({ maxConnections: 500 });
    const clients = await Promise.all(Array.from({ length: 500 }, () => server.connect()));
    await expect(server.connect()).rejects.toThrow('503');
    await Promise.all(clients.map((client) => client.close()));
  });

  test('closes a connection that does not send initialize in time', async () => {
    const server = await start({ initializeTimeoutMs: 100 });
    const [idle, working] = [await server.connect({ handshake: false }), await server.connect()];
    expect(await idle.closed).toEqual({
      code: 1008,
      reason: 'no initialize within 100 ms (initializeTimeoutMs)',
    });
    expect(await ready(working)).toEqual({ status: 'ready' });
  });

  test('closes a connection that answers no pings', async () => {
    const server = await start({ pingIntervalMs: 20, peerSilenceTimeoutMs: 100 });
    const working = await server.connect();
    const silent = openSocket(Number(new URL(server.url).port));
    silent.write(
      [
        ...['GET / HTTP/1.1', 'Host: 127.0.0.1', 'Connection: Upgrade', 'Upgrade: websocket'],
        ...['Sec-WebSocket-Version: 13', 'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==', '', ''],
      ].join('\r\n'),
    );
    await once(silent, 'close');
    expect(await ready(working)).toEqual({ status: 'ready' });
  });

  test('refuses a session beyond the limit, names the limit, and accepts one later', async () => {
    const server = await start({ maxSessions: 1, detachedSessionTtlMs: 0 });
    const first = await server.connect();
    const second = await server.connect({ handshake: false });
    await expect(second.handshake()).rejects.toMatchObject({
      code: -32001,
      message: expect.stringContaining('maxSessions'),
    });
    expect(await ready(first)).toEqual({ status: 'ready' });
    await first.close();
    await waitFor('a free slot', () =>
      second.handshake().then(
        () => true,
        () => false,
      ),
    );
  });
});

describe('clients with signed tokens', () => {
  const secret = 'a secret that only this test and its server know';

  /** A server with six sessions, and how to connect with a token. */
  async function startShared() {
    const path = join(folder, 'secret');
    writeFileSync(path, secret, { mode: 0o600 });
    const server = await start({
      ...{ wsAuth: 'signed-bearer-token', wsSharedSecretFile: path },
      ...{ maxSessions: 6, detachedSessionTtlMs: Number.POSITIVE_INFINITY },
    });
    return (jti: string) => {
      const token = signToken({ jti, exp: Math.floor(Date.now() / 1_000) + 3_600 }, secret);
      return async (resumeSessionId?: string) => {
        const client = await TestClient.connect(server.url, { authorization: `Bearer ${token}` });
        cleanups.push(() => client.close());
        const session = { clientName: 'test', ...(resumeSessionId && { resumeSessionId }) };
        const { sessionId } = await client.call('initialize', session);
        client.notify('initialized');
        return { client, sessionId };
      };
    };
  }

  test.each(['attached', 'detached with a running program'])(
    'no one loses results to sessions of another that are %s, and each still gets a session',
    async (state) => {
      const connectAs = await startShared();
      const [victim, greedy] = [connectAs('victim'), connectAs('greedy')];
      const { client, sessionId } = await victim();
      await client.call('process/start', shell('job', 'echo result'));
      await client.call('process/wait', { processId: 'job' });
      await client.close();
      const opened: TestClient[] = [];
      const refused = await (async () => {
        for (;;) opened.push((await greedy()).client);
      })().catch((error: unknown) => error);
      expect(refused).toMatchObject({
        code: -32001,
        message: expect.stringContaining('this client has 4 of'),
      });
      if (state !== 'attached') {
        for (const each of opened) {
          await each.call('process/start', shell('sleep', 'sleep 1000'));
          await each.close();
        }
        await expect(greedy()).rejects.toMatchObject({ code: -32001 });
      }
      const { client: back } = await victim(sessionId);
      const { chunks } = await back.call('process/read', { processId: 'job' });
      expect(chunks.map(({ chunk }) => Buffer.from(chunk, 'base64').toString()).join('')).toBe('result\n');
      expect((await victim()).sessionId).not.toBe(sessionId);
    },
  );
});

describe('limits of all clients together', () => {
  test('refuses a process beyond the limit and names the limit; a process that ends frees its slot', async () => {
    const server = await start({ maxProcesses: 2 });
    const [one, two] = [await server.connect(), await server.connect()];
    await one.call('process/start', { ...shell('a', 'read line; echo "$line"'), pipeStdin: true });
    await two.call('process/start', shell('b', 'sleep 60'));
    await expect(two.request('process/start', shell('c', 'true'))).rejects.toMatchObject({
      code: -32600,
      message: 'the server has 2 running processes, the configured maximum (maxProcesses)',
    });
    await one.call('process/write', { processId: 'a', chunk: base64('still here\n'), writeId: '1' });
    expect((await one.closedProcess('a')).text()).toBe('still here\n');
    await two.call('process/start', shell('c', 'echo room'));
    expect((await two.closedProcess('c')).text()).toBe('room\n');
    await expect(
      two.request('process/start', { ...shell('d', ''), argv: ['/nonexistent'] }),
    ).rejects.toThrow();
    await two.call('process/start', shell('e', 'true'));
  });

  test('refuses a file handle beyond the limit and names the limit; a closed handle frees its slot', async () => {
    const server = await start({ maxFileHandles: 2 });
    const [one, two] = [await server.connect(), await server.connect()];
    const path = fileOf('handles', 10);
    const open = (client: TestClient, handleId: string) =>
      client.call('fs/open', { handleId, path, mode: 'read' });
    await open(one, 'a');
    await open(two, 'a');
    await expect(open(two, 'b')).rejects.toMatchObject({
      code: -32600,
      message: 'the server has 2 open file handles, the configured maximum (maxFileHandles)',
    });
    expect(await one.call('fs/readBlock', { handleId: 'a', offset: 0, len: 3 })).toMatchObject({
      eof: false,
    });
    await one.call('fs/close', { handleId: 'a' });
    await open(two, 'b');
    await two.drop();
    await waitFor('a free slot', () =>
      open(one, 'c').then(
        () => true,
        () => false,
      ),
    );
  });
});

describe('one connection', () => {
  test('is read more slowly when it sends too fast, and loses nothing', async () => {
    const server = await start({ maxMessagesPerSecond: 50 });
    const other = await server.connect();
    // The rate counts from the connection on.
    const connectedAt = performance.now();
    const busy = await server.connect();
    await Promise.all(Array.from({ length: 100 }, () => ready(busy)));
    expect(await ready(other)).toEqual({ status: 'ready' });
    await ready(busy);
    // The first second's messages are read immediately, the other half at the limited rate.
    expect(performance.now() - connectedAt).toBeGreaterThan(900);
  });

  test('cannot queue too much stdin for programs that do not read, and can still terminate them', async () => {
    const server = await start({ maxRequestBytesInFlight: 64 * 1024 });
    const client = await server.connect();
    await client.call('process/start', { ...shell('p', 'sleep 60'), pipeStdin: true });
    const chunk = Buffer.alloc(4096).toString('base64');
    const writes = Array.from({ length: 200 }, (_, index) =>
      client.request('process/write', { processId: 'p', chunk, writeId: String(index) }),
    );
    const refused = await Promise.race(writes.map((write) => write.then(() => new Promise(() => {})))).catch(
      (error: unknown) => error,
    );
    expect(refused).toMatchObject({
      code: -32001,
      message: expect.stringContaining('maxRequestBytesInFlight'),
    });
    expect(await client.call('process/terminate', { processId: 'p' })).toEqual({ running: true });
    await client.closedProcess('p');
    await Promise.allSettled(writes);
    expect(await ready(client)).toEqual({ status: 'ready' });
  });

  test.each([8 * 1024, 4 * 1024 * 1024])(
    'gets an error instead of a response above the limit, for %i bytes',
    async (bytes) => {
      const server = await start({ maxResponseBytes: 8 * 1024 });
      const client = await server.connect();
      await expect(client.request('fs/readFile', { path: fileOf('large', bytes) })).rejects.toMatchObject({
        code: -32001,
        message: expect.stringContaining('maxResponseBytes'),
      });
      expect(await client.call('fs/readFile', { path: fileOf('small', 1024) })).toBeDefined();
    },
  );

  test.each([
    [4 * 1024, 'seq 20000'],
    [64 * 1024, 'seq 100000'],
    [200 * 1024, 'seq 200000 | tail -c 1000000'],
    [4 * 1024, 'i=0; while [ $i -lt 3000 ]; do echo $i; i=$((i + 1)); done; exit 3'],
  ])('reads all output of a process in responses of %i bytes: %s', async (maxResponseBytes, script) => {
    const client = await (await start({ maxResponseBytes })).connect();
    await client.call('process/start', shell('p', script));
    const sent = await client.closedProcess('p');
    const pages: ResultOf<'process/read'>[] = [];
    do {
      const afterSeq = (pages.at(-1)?.nextSeq ?? 1) - 1;
      pages.push(await client.call('process/read', { processId: 'p', afterSeq }));
    } while (!pages.at(-1)!.closed);
    const output = pages.flatMap((page) => page.chunks.map(({ chunk }) => Buffer.from(chunk, 'base64')));
    expect(Buffer.concat(output).toString()).toBe(sent.text());
    expect(pages.length).toBeGreaterThan(1);
    expect(pages.at(-1)).toMatchObject({ exited: true, exitCode: sent.exitCode });
    const lengths = pages.map((page) => JSON.stringify(page).length);
    expect(Math.max(...lengths)).toBeLessThan(maxResponseBytes);
  });

  test('reads output with a budget that is larger than a response', async () => {
    const client = await (await start({ maxResponseBytes: 8 * 1024 })).connect();
    await client.call('process/start', shell('p', 'seq 20000'));
    await client.closedProcess('p');
    const page = await client.call('process/read', { processId: 'p', maxBytes: 1024 * 1024 });
    expect(page).toMatchObject({ nextSeq: page.chunks.at(-1)!.seq + 1, closed: true });
    expect(JSON.stringify(page).length).toBeLessThan(8 * 1024);
  });
});

describe('file descriptors', () => {
  const IDLE_SOCKETS = 80;

  async function startWithDescriptors(count: number) {
    const bin = fileURLToPath(new URL('../../dist/bin/exec-server.cjs', import.meta.url));
    const server = await startProgram('/bin/sh', [
      '-c',
      `ulimit -n ${count}; exec "$0" "$@"`,
      process.execPath,
      bin,
    ]);
    cleanups.push(() => server.stop());
    return server;
  }

  test('a sandboxed start that would need too many is refused before it creates anything', async () => {
    const server = await startWithDescriptors(96);
    const client = await TestClient.connect(server.url!);
    await client.handshake();
    const sandbox = { type: 'workspaceWrite', writableRoots: [], networkAccess: false };
    const start = async (processId: string, roots: readonly string[]) => {
      const writableRoots = roots.map((root) => pathToFileURL(root).href);
      const policy = { ...sandbox, writableRoots, excludeTmpdirEnvVar: true, excludeSlashTmp: true };
      const cwd = pathToFileURL(roots[0]!).href;
      return await client.request('process/start', { ...shell(processId, 'ls -A'), cwd, sandbox: policy });
    };
    const roots = ['a', 'b', 'c', 'd', 'e'].map((name) => join(folder, name));
    for (const root of roots) mkdirSync(root);
    await expect(start('p', roots)).rejects.toMatchObject({
      code: -32603,
      message: expect.stringContaining('(RLIMIT_NOFILE)'),
    });
    expect(roots.flatMap((root) => readdirSync(root))).toEqual([]);
    await start('q', roots.slice(0, 1));
    expect((await client.closedProcess('q')).text()).toContain('.git\n');
    expect(roots.flatMap((root) => readdirSync(root))).toEqual([]);
    await client.close();
  });

  test('a lone session runs many sandboxed programs, and leaves some for the next session', async () => {
    const server = await startWithDescriptors(256);
    const connected = async () => {
      const client = await TestClient.connect(server.url!);
      await client.handshake();
      cleanups.push(() => client.close());
      return client;
    };
    const start = (client: TestClient, processId: string) =>
      client.request('process/start', {
        ...shell(processId, 'exec sleep 1000'),
        sandbox: { type: 'readOnly', networkAccess: false },
      });
    const first = await connected();
    let started = 0;
    const refused = (async () => {
      for (; started < 100; started++) await start(first, `p${started}`);
    })();
    await expect(refused).rejects.toMatchObject({ message: expect.stringContaining('(RLIMIT_NOFILE)') });
    // 108 descriptors are for programs and files. Two per running program, and a few more for the next start.
    expect(started).toBeGreaterThanOrEqual(24);
    const second = await connected();
    for (const processId of ['q1', 'q2', 'q3']) await start(second, processId);
  });

  test('are not used up by idle connections', async () => {
    const server = await startWithDescriptors(64);
    const { port } = new URL(server.url!);
    const sockets = Array.from({ length: IDLE_SOCKETS }, () => openSocket(Number(port)));
    await Promise.all(sockets.map((socket) => once(socket, 'connect')));
    const client = await TestClient.connect(server.url!);
    await client.handshake();
    await client.call('process/start', shell('p', 'echo served'));
    expect((await client.closedProcess('p')).text()).toBe('served\n');
    const clients = await Promise.allSettled(
      Array.from({ length: 20 }, () => TestClient.connect(server.url!)),
    );
    expect(clients.some(({ status }) => status === 'rejected')).toBe(true);
    await client.call('process/start', shell('q', 'echo again'));
    expect((await client.closedProcess('q')).text()).toBe('again\n');
  });
});

function openSocket(port: number): Socket {
  const socket = connect(port, '127.0.0.1');
  socket.on('error', () => {});
  socket.resume();
  cleanups.push(() => socket.destroy());
  return socket;
}
