import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { WebSocket } from 'ws';
import { type ServerProcess, startServerProcess, TestClient } from '../../src/testing/index.ts';
import { connectWebSocket } from '../../src/transport/websocket.ts';
import { Certificates, pem } from '../support/certificates.ts';
import { cpuTimeOf, memoryOf } from '../support/machine.ts';

/** How long another client's request may occupy the server, in CPU time. Wall time would measure the test machine. */
const MAX_CPU_MS = 500;
const REQUESTS = 10;

const floods: ChildProcess[] = [];
afterEach(async () => {
  for (const flood of floods.splice(0)) {
    flood.kill('SIGKILL');
    if (flood.exitCode === null && flood.signalCode === null) await once(flood, 'exit');
  }
});

async function flood(kind: string, url: string, connections: number): Promise<void> {
  const program = fileURLToPath(new URL('../support/flood.mjs', import.meta.url));
  const child = spawn(process.execPath, [program, kind, url, String(connections)], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  floods.push(child);
  await once(child.stdout!, 'data');
}

/** The most CPU time that the server spends between a request and its response. */
async function longestWait(server: ServerProcess, client: TestClient): Promise<number> {
  const pid = server.process.pid!;
  let longest = 0;
  for (let request = 0; request < REQUESTS; request++) {
    const before = cpuTimeOf(pid);
    await client.call('environment/status', {});
    longest = Math.max(longest, cpuTimeOf(pid) - before);
  }
  return longest;
}

describe('another client is served during a flood', () => {
  let server: ServerProcess;
  let client: TestClient;

  beforeAll(async () => {
    server = await startServerProcess();
    client = await server.connect();
  });
  afterAll(() => server.close());

  test.each([
    ['pings', 3],
    ['pings', 200],
    ['pings after initialize', 20],
    ['pongs', 20],
    ['empty fragments', 20],
    ['fragments of one byte', 20],
    ['requests before initialize', 50],
    ['requests after initialize', 20],
    ['invalid messages', 20],
    ['invalid messages and new connections', 20],
    ['health requests', 50],
    ['unknown paths', 20],
    ['refused upgrades', 20],
    ['health connections', 50],
    ['upgrade connections', 50],
  ])('of %s on %i connections', async (kind, connections) => {
    await flood(kind, server.url, connections);
    expect(await longestWait(server, client)).toBeLessThanOrEqual(MAX_CPU_MS);
  });
});

test('another client is served during a flood of half-open TLS handshakes', async () => {
  const certificates = new Certificates();
  const authority = certificates.authority('ours');
  const { cert, key } = certificates.signedBy(authority, 'server');
  const flags = ['--listen', 'wss://127.0.0.1:0', '--tls-cert', cert, '--tls-key', key];
  const server = await startServerProcess(flags);
  try {
    const client = new TestClient(await connectWebSocket(server.url, { tls: { ca: pem(authority).cert } }));
    await client.handshake();
    await flood('TLS connections', server.url, 50);
    expect(await longestWait(server, client)).toBeLessThanOrEqual(MAX_CPU_MS);
    await client.close();
  } finally {
    await server.close();
    certificates.remove();
  }
});

describe('unfinished messages', () => {
  const MIB = 1024 * 1024;
  let server: ServerProcess;
  beforeAll(async () => {
    server = await startServerProcess(['--max-unfinished-bytes', '64MiB']);
  });
  afterAll(() => server.close());

  /** A client that sends the first part of a message and never its end. `closed` has the close code. */
  async function begin(part: Buffer, isInitialized: boolean) {
    const ws = new WebSocket(server.url);
    const state = { closed: null as [number, string] | null };
    ws.on('error', () => {});
    const closed = new Promise<void>((resolve) => {
      ws.on('close', (code, reason) => {
        state.closed = [code, String(reason)];
        resolve();
      });
    });
    await once(ws, 'open');
    if (isInitialized) {
      ws.send(JSON.stringify({ id: 1, method: 'initialize', params: { clientName: 'x' } }));
      await once(ws, 'message');
    }
    ws.send(part, { fin: false, binary: false });
    ws.ping();
    // The pong says that the server has received the part.
    await Promise.race([once(ws, 'pong'), closed]);
    return { ws, state, closed };
  }

  test('are small before initialize', async () => {
    const before = memoryOf(server.process.pid!, 'VmRSS');
    const part = Buffer.alloc(16 * MIB, 'x');
    const clients = await Promise.all(Array.from({ length: 40 }, () => begin(part, false)));
    for (const { closed, state } of clients) {
      await closed;
      expect(state.closed).toEqual([
        1009,
        'a message has more than 65536 bytes, the limit before initialize',
      ]);
    }
    // Of 640 MiB. What is left are discarded chunks that the garbage collector has not freed yet; Node 24 frees them later than Node 20.
    expect(memoryOf(server.process.pid!, 'VmRSS') - before).toBeLessThan(128 * MIB);
  });

  test('of all connections share a budget, and the oldest are refused', async () => {
    const before = memoryOf(server.process.pid!, 'VmRSS');
    const part = Buffer.alloc(16 * MIB, 'x');
    const clients: Awaited<ReturnType<typeof begin>>[] = [];
    for (let count = 0; count < 12; count++) clients.push(await begin(part, true));
    for (const { closed, state } of clients.slice(0, 8)) {
      await closed;
      expect(state.closed?.[0]).toBe(1013);
      expect(state.closed?.[1]).toContain('maxUnfinishedBytes');
    }
    expect(clients.slice(8).map(({ state }) => state.closed)).toEqual([null, null, null, null]);
    expect(memoryOf(server.process.pid!, 'VmHWM') - before).toBeLessThan(12 * part.length);
    const other = await server.connect();
    expect(await other.call('environment/status', {})).toEqual({ status: 'ready' });
    for (const { ws } of clients) ws.terminate();
    await other.close();
  });
});
