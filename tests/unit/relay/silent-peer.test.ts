import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from 'vitest';
import { forwardStream } from '../../../src/relay/forward/forward-stream.ts';
import { RelaySource } from '../../../src/relay/harness/relay-source.ts';
import {
  BUNDLE_TIMEOUT_MS,
  BUNDLE_TOTAL_TIMEOUT_MS,
  REGISTER_TIMEOUT_MS,
  SOCKET_CONNECT_TIMEOUT_MS,
  TUNNEL_TIMEOUT_MS,
} from '../../../src/relay/limits.ts';
import { openTunnel } from '../../../src/relay/outbound/proxy.ts';
import { openRendezvous } from '../../../src/relay/outbound/rendezvous.ts';
import { bearerAuth } from '../../../src/relay/registry-auth.ts';
import { parseRegistryUrl, RegistryClient } from '../../../src/relay/registry-client.ts';
import { createMemoryPair } from '../../../src/transport/memory.ts';
import { forceGc } from '../../support/force-gc.ts';
import { executorIdentity } from './link-fixture.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
});
afterEach(() => {
  vi.useRealTimers();
});

/** Everything that waits for a peer, how long, and the error. */
const WAITS: readonly (readonly [string, number, RegExp, (port: number) => Promise<unknown>])[] = [
  ['a registration', REGISTER_TIMEOUT_MS, /no answer within 10 s/, (port) => register(port)],
  [
    'a harness that asks the registry',
    BUNDLE_TOTAL_TIMEOUT_MS,
    /no answer within 6 s/,
    (port) => sourceAt(port).open(NEVER),
  ],
  [
    'a connection to the rendezvous',
    SOCKET_CONNECT_TIMEOUT_MS,
    /closed before the connection/,
    (port) => openRendezvous(`ws://127.0.0.1:${port}`, { text: 'refuse', env: {}, tls: undefined }, NEVER),
  ],
  ['a tunnel', TUNNEL_TIMEOUT_MS, /the proxy .* failed: .*abort/, (port) => tunnelThrough(port)],
  [
    'a forwarded stream',
    SOCKET_CONNECT_TIMEOUT_MS,
    /closed before the connection/,
    (port) => forwardStream(createMemoryPair()[1], { url: `ws://127.0.0.1:${port}` }),
  ],
];

test.each(WAITS)('%s ends after %d ms without an answer, also when garbage is collected', async (...row) => {
  const [, ms, error, wait] = row;
  const { port, connected } = await silentPeer();
  const outcome = expect(wait(port)).rejects.toThrow(error);
  await connected;
  await forceGc();
  await vi.advanceTimersByTimeAsync(ms);
  await outcome;
});

test('a harness retries a registry that does not answer', async () => {
  const { port, connected, count } = await silentPeer();
  const failed = expect(sourceAt(port).open(NEVER)).rejects.toThrow(/no answer/);
  await connected;
  await forceGc();
  await vi.advanceTimersByTimeAsync(BUNDLE_TIMEOUT_MS);
  await vi.waitFor(async () => {
    await vi.advanceTimersByTimeAsync(100);
    expect(count()).toBe(2);
  });
  await vi.advanceTimersByTimeAsync(BUNDLE_TOTAL_TIMEOUT_MS);
  await failed;
});

const NEVER = new AbortController().signal;

function register(port: number): Promise<unknown> {
  const url = parseRegistryUrl(`http://127.0.0.1:${port}`);
  const client = new RegistryClient({ url, environmentId: 'env-1', auth: bearerAuth('token'), env: {} });
  return client.register(executorIdentity.publicKey, NEVER);
}

function sourceAt(port: number): RelaySource {
  return new RelaySource({
    registryUrl: `http://127.0.0.1:${port}`,
    environmentId: 'env-1',
    auth: 'token',
    env: {},
  });
}

function tunnelThrough(port: number): Promise<unknown> {
  const env = { http_proxy: `http://127.0.0.1:${port}` };
  return openTunnel(new URL('http://far.test/'), { env, tls: undefined }, NEVER);
}

/** A peer that accepts connections and sends nothing. */
async function silentPeer() {
  const sockets: Socket[] = [];
  const server = createServer((socket) => void sockets.push(socket.on('error', () => {})));
  const connected = once(server, 'connection');
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return { port: (server.address() as AddressInfo).port, connected, count: () => sockets.length };
}
