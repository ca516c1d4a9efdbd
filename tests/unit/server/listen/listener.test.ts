import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { networkInterfaces } from 'node:os';
import { afterEach, expect, test, vi } from 'vitest';
import { StartError } from '../../../../src/listener/start-error.ts';
import { createLogger } from '../../../../src/observability/log.ts';
import { Listener, type ListenerOptions } from '../../../../src/server/listen/listener.ts';
import type { ServerMetrics } from '../../../../src/server/records/server-metrics.ts';
import type { Transport } from '../../../../src/transport/transport.ts';

const cleanups: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

async function listen(options: Partial<ListenerOptions> = {}) {
  const transports: Transport[] = [];
  const listener = new Listener({
    address: LOOPBACK,
    tls: null,
    gate: null,
    allowedHost: '',
    maxConnections: 10,
    maxConnectionsPerAddress: 10,
    maxSockets: 20,
    handshakeTimeoutMs: 60_000,
    maxMessageBytes: 1_000,
    maxUnfinishedBytes: 1_000_000,
    pingIntervalMs: 0,
    peerSilenceTimeoutMs: 0,
    log: createLogger('error', () => {}),
    accepted: (transport) => transports.push(transport),
    ...options,
  });
  const url = await listener.listen();
  cleanups.push(() => listener.close());
  return { listener, url, port: Number(new URL(url).port), transports };
}

const LOOPBACK = { kind: 'websocket', secure: false, host: '127.0.0.1', port: 0 } as const;

/** Sends a request and returns the whole response. The server closes the connection. */
async function request(port: number, head: string, headers: readonly string[] = []): Promise<string> {
  const socket = open(port);
  socket.write([head, HOST, ...headers, '', ''].join('\r\n'));
  return response(socket);
}

/** A connection that never closes by itself, whatever the server does. */
function open(port: number): Socket {
  const socket = connect({ port, host: '127.0.0.1', allowHalfOpen: true });
  cleanups.push(() => socket.destroy());
  socket.on('error', () => {});
  return socket;
}

async function response(socket: Socket): Promise<string> {
  const [data] = (await once(socket, 'data')) as [Buffer];
  return data.toString();
}

const HOST = 'Host: 127.0.0.1';
const UPGRADE = [
  'Connection: Upgrade',
  'Upgrade: websocket',
  'Sec-WebSocket-Version: 13',
  'Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==',
];
const without = (name: string) => UPGRADE.filter((header) => !header.startsWith(name));

test.each<[string, string, readonly string[], RegExp]>([
  ['a probe', 'GET /readyz HTTP/1.1', [], /^HTTP\/1.1 200 [\s\S]*content-length: 0\r\n/i],
  ['a HEAD probe', 'HEAD /readyz HTTP/1.1', [], /^HTTP\/1.1 200 /],
  ['a probe that asks for an upgrade', 'GET /readyz HTTP/1.1', UPGRADE, /^HTTP\/1.1 200 /],
  ['an upgrade', 'GET /?q HTTP/1.1', UPGRADE, /^HTTP\/1.1 101 /],
  ['an upgrade with an absolute URL', 'GET http://127.0.0.1/?q HTTP/1.1', UPGRADE, /^HTTP\/1.1 101 /],
  [
    'an upgrade with an absolute URL without a path',
    'GET HTTP://127.0.0.1 HTTP/1.1',
    UPGRADE,
    /^HTTP\/1.1 101 /,
  ],
  [
    'an upgrade with an absolute URL of another host',
    'GET http://evil/ HTTP/1.1',
    UPGRADE,
    /^HTTP\/1.1 421 /,
  ],
  ['a probe with an absolute URL', 'GET http://127.0.0.1/readyz HTTP/1.1', [], /^HTTP\/1.1 200 /],
  [
    'an upgrade that offers a protocol',
    'GET / HTTP/1.1',
    [...UPGRADE, 'Sec-WebSocket-Protocol: a, b'],
    /^HTTP\/1.1 101 (?![\s\S]*Sec-WebSocket-Protocol)/i,
  ],
  [
    'an upgrade that offers compression',
    'GET / HTTP/1.1',
    [...UPGRADE, 'Sec-WebSocket-Extensions: permessage-deflate'],
    /^HTTP\/1.1 101 (?![\s\S]*Sec-WebSocket-Extensions)/i,
  ],
  [
    'an upgrade with stray credentials',
    'GET / HTTP/1.1',
    [...UPGRADE, 'Authorization: Bearer x'],
    /^HTTP\/1.1 101 /,
  ],
  ['an upgrade from a web page', 'GET / HTTP/1.1', [...UPGRADE, 'Origin: http://evil'], /^HTTP\/1.1 403 /],
  ['a probe from a web page', 'GET /readyz HTTP/1.1', ['Origin:'], /^HTTP\/1.1 403 /],
  ['a request without an upgrade', 'GET / HTTP/1.1', [], /^HTTP\/1.1 400 [\s\S]*websocket endpoint/],
  ['an upgrade without Connection', 'GET / HTTP/1.1', without('Connection'), /^HTTP\/1.1 400 /],
  ['an upgrade without a key', 'GET / HTTP/1.1', without('Sec-WebSocket-Key'), /^HTTP\/1.1 400 /],
  [
    'another version',
    'GET / HTTP/1.1',
    [...without('Sec-WebSocket-Version'), 'Sec-WebSocket-Version: 12'],
    /^HTTP\/1.1 400 /,
  ],
  ['an upgrade on another path', 'GET /ws HTTP/1.1', UPGRADE, /^HTTP\/1.1 404 Not Found/],
  ['another method', 'POST / HTTP/1.1', ['Content-Length: 0'], /^HTTP\/1.1 405 [\s\S]*allow: GET\r\n/i],
  ['data that is not HTTP', 'hello', [], /^HTTP\/1.1 400 /],
])('answers %s', async (_name, head, headers, expected) => {
  const { port, transports } = await listen();
  const answer = await request(port, head, headers);
  expect(answer).toMatch(expected);
  expect(transports).toHaveLength(answer.startsWith('HTTP/1.1 101') ? 1 : 0);
});

test('answers requests that also offer another protocol, and does not record them as rejected', async () => {
  const rejected = vi.fn();
  const metrics = { scrape: () => 'one 1\n', contentType: 'text/plain' } as unknown as ServerMetrics;
  const { port } = await listen({ rejected, metrics });
  const offer = ['Connection: Upgrade, HTTP2-Settings', 'Upgrade: h2c', 'HTTP2-Settings: AAMAAABk'];
  expect(await request(port, 'GET /healthz HTTP/1.1', offer)).toMatch(/^HTTP\/1.1 200 /);
  expect(await request(port, 'GET /metrics HTTP/1.1', offer)).toMatch(/^HTTP\/1.1 200 [\s\S]*one 1\n$/);
  expect(rejected).not.toHaveBeenCalled();
  expect(await request(port, 'GET /elsewhere HTTP/1.1', offer)).toMatch(/^HTTP\/1.1 404 /);
  expect(rejected).toHaveBeenCalledOnce();
});

test('returns a URL with the bound address and port, in brackets for IPv6', async () => {
  expect((await listen()).url).toMatch(/^ws:\/\/127\.0\.0\.1:[1-9]\d*$/);
  expect((await listen({ address: { ...LOOPBACK, host: '::1' } })).url).toMatch(/^ws:\/\/\[::1\]:[1-9]\d*$/);
});

test('rejects when the address is in use', async () => {
  const { port } = await listen();
  await expect(listen({ address: { ...LOOPBACK, port } })).rejects.toThrow(
    new StartError(
      `cannot listen on ws://127.0.0.1:${port}: the port is in use (choose another, or 0 for a free one)`,
    ),
  );
});

test('limits the number of connections; a closed one frees its slot', async () => {
  const { port } = await listen({ maxConnections: 2 });
  const first = open(port);
  first.write(['GET / HTTP/1.1', HOST, ...UPGRADE, '', ''].join('\r\n'));
  expect(await response(first)).toMatch(/^HTTP\/1.1 101/);
  expect(await request(port, 'GET / HTTP/1.1', UPGRADE)).toMatch(/^HTTP\/1.1 101/);
  expect(await request(port, 'GET / HTTP/1.1', UPGRADE)).toMatch(/^HTTP\/1.1 503 [\s\S]*maxConnections/);
  expect(await request(port, 'GET /readyz HTTP/1.1')).toMatch(/^HTTP\/1.1 200/);
  first.destroy();
  let answer = '';
  while (!answer.startsWith('HTTP/1.1 101')) answer = await request(port, 'GET / HTTP/1.1', UPGRADE);
});

test('answers probes and refuses upgrades while draining', async () => {
  const { port, listener } = await listen();
  listener.refuseConnections();
  expect(await request(port, 'GET /readyz HTTP/1.1')).toMatch(/^HTTP\/1.1 503/);
  expect(await request(port, 'GET /healthz HTTP/1.1')).toMatch(/^HTTP\/1.1 200/);
  expect(await request(port, 'GET / HTTP/1.1', UPGRADE)).toMatch(/^HTTP\/1.1 503 [\s\S]*shutting down/);
});

test('closes a refused connection that the peer keeps open', async () => {
  const { port } = await listen();
  const socket = open(port);
  socket.write(['GET /nope HTTP/1.1', HOST, ...UPGRADE, '', ''].join('\r\n'));
  await response(socket);
  await once(socket, 'end');
  // Only a destroyed socket refuses writes.
  const gone = new Promise((resolve) => socket.on('close', resolve));
  const writing = setInterval(() => socket.write('x'), 1);
  await gone;
  clearInterval(writing);
  expect(socket.destroyed).toBe(true);
});

test.each<[string, readonly string[] | null]>([
  ['has sent nothing', null],
  ['has sent half a request', ['GET / HTTP/1.1', 'Host']],
  ['was refused an upgrade', ['GET /nope HTTP/1.1', HOST, ...UPGRADE, '', '']],
  ['was refused a bad handshake', ['GET / HTTP/1.1', HOST, ...without('Sec-WebSocket-Key'), '', '']],
  ['has been upgraded', ['GET / HTTP/1.1', HOST, ...UPGRADE, '', '']],
  ['keeps a probe alive', ['GET /readyz HTTP/1.1', HOST, '', '']],
])('close does not wait for a peer that %s', async (_name, lines) => {
  const { port, listener } = await listen();
  const socket = open(port);
  await once(socket, 'connect');
  if (lines !== null) {
    socket.write(lines.join('\r\n'));
    if (lines.at(-1) === '') await response(socket);
  }
  await listener.close();
  const refused = connect(port, '127.0.0.1');
  const [error] = (await once(refused, 'error')) as [NodeJS.ErrnoException];
  expect(error.code).toBe('ECONNREFUSED');
});

/** Sends an upgrade and returns the status line's code. */
async function upgrade(port: number): Promise<string> {
  return (await request(port, 'GET / HTTP/1.1', UPGRADE)).slice(9, 12);
}

test.each<[string, string]>([
  ['nothing', ''],
  ['half a request', 'GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: '],
])('closes the connection of a peer that sends %s after the timeout', async (_name, text) => {
  const { port } = await listen({ handshakeTimeoutMs: 50 });
  const socket = open(port);
  if (text !== '') socket.write(text);
  expect(await response(socket)).toMatch(/^HTTP\/1.1 408 /);
  await once(socket, 'end');
});

test('does not apply the handshake timeout to a websocket', async () => {
  const { port, transports } = await listen({ handshakeTimeoutMs: 50 });
  const socket = open(port);
  socket.write(['GET / HTTP/1.1', HOST, ...UPGRADE, '', ''].join('\r\n'));
  await response(socket);
  await response(open(port));
  expect(transports).toHaveLength(1);
  expect(socket.readableEnded).toBe(false);
});

test('evicts the oldest connection that is not a websocket when all slots are taken', async () => {
  const { port } = await listen({ maxConnections: 2, maxSockets: 3 });
  const idle = [open(port), open(port), open(port)];
  await Promise.all(idle.map((socket) => once(socket, 'connect')));
  const evicted = response(idle[0]!);
  expect(await upgrade(port)).toBe('101');
  expect(await evicted).toMatch(/^HTTP\/1.1 503 [\s\S]*have not become websockets/);
  expect(await upgrade(port)).toBe('101');
  expect((await response(idle[1]!)).slice(9, 12)).toBe('503');
  // A websocket is not evicted.
  expect(await upgrade(port)).toBe('503');
  expect((await response(idle[2]!)).slice(9, 12)).toBe('503');
});

/** An address of this machine that is not loopback. */
const outside = Object.values(networkInterfaces())
  .flat()
  .find((face) => face?.internal === false && face.family === 'IPv4')?.address;

test.runIf(outside !== undefined)('limits the number of connections from one address', async () => {
  const address = { ...LOOPBACK, host: '0.0.0.0' };
  const { port } = await listen({ address, maxConnectionsPerAddress: 1, allowedHost: outside! });
  const socket = connect({ port, host: outside! });
  cleanups.push(() => socket.destroy());
  const text = ['GET / HTTP/1.1', `Host: ${outside}`, ...UPGRADE, '', ''].join('\r\n');
  socket.write(text);
  expect(await response(socket)).toMatch(/^HTTP\/1.1 101 /);
  const second = connect({ port, host: outside! });
  cleanups.push(() => second.destroy());
  second.write(text);
  expect(await response(second)).toMatch(/^HTTP\/1.1 503 [\s\S]*maxConnectionsPerAddress/);
  // Loopback is not counted.
  expect(await upgrade(port)).toBe('101');
  expect(await upgrade(port)).toBe('101');
});

test('destroys an evicted connection that does not read its response', async () => {
  const size = 32 * 1024 * 1024;
  const metrics = { contentType: 'text/plain', scrape: () => 'x'.repeat(size) } as unknown as ServerMetrics;
  const { port } = await listen({ metrics, maxConnections: 1, maxSockets: 2 });
  const lazy = open(port);
  lazy.write(`GET /metrics HTTP/1.1\r\n${HOST}\r\n\r\n`);
  await once(lazy, 'readable');
  for (let client = 0; client < 2; client++) await request(port, 'GET /healthz HTTP/1.1');
  let received = 0;
  lazy.on('data', (bytes: Buffer) => {
    received += bytes.length;
  });
  await once(lazy, 'end');
  expect(received).toBeLessThan(size);
});
