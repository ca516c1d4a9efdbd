import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { type ServerProcess, startServerProcess, TestClient } from '../../src/testing/index.ts';
import { connectWebSocket } from '../../src/transport/websocket.ts';
import { Certificates, pem } from '../support/certificates.ts';
import { cpuTimeOf } from '../support/machine.ts';

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
