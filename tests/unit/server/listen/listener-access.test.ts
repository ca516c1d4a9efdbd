import { once } from 'node:events';
import { connect } from 'node:net';
import { afterEach, expect, test } from 'vitest';
import { createLogger } from '../../../../src/observability/log.ts';
import { FULL_ACCESS } from '../../../../src/server/auth/access.ts';
import { anonymousPrincipal, type Principal } from '../../../../src/server/auth/principal.ts';
import { Listener, type ListenerOptions } from '../../../../src/server/listen/listener.ts';
import type { ServerMetrics } from '../../../../src/server/records/server-metrics.ts';

const cleanups: (() => unknown)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

const ROBOT: Principal = { ...anonymousPrincipal('127.0.0.1'), kind: 'capabilityToken', tokenId: 'robot' };
const GATE: ListenerOptions['gate'] = async (authorization) =>
  authorization === 'Bearer right' ? { principal: ROBOT } : { refusal: 'not you', delayMs: 0 };

async function listen(options: Partial<ListenerOptions> = {}) {
  const principals: Principal[] = [];
  const lines: string[] = [];
  const listener = new Listener({
    address: { kind: 'websocket', secure: false, host: '127.0.0.1', port: 0 },
    tls: null,
    gate: GATE,
    allowedHost: '',
    maxConnections: 10,
    maxConnectionsPerAddress: 10,
    maxSockets: 20,
    handshakeTimeoutMs: 60_000,
    maxMessageBytes: 1_000,
    maxUnfinishedBytes: 1_000_000,
    pingIntervalMs: 0,
    peerSilenceTimeoutMs: 0,
    log: createLogger('debug', (line) => lines.push(line)),
    accepted: (_, principal) => principals.push(principal),
    ...options,
  });
  const { port } = new URL(await listener.listen());
  cleanups.push(() => listener.close());
  return { listener, port: Number(port), principals, lines };
}

async function answer(
  port: number,
  line: string,
  headers: Readonly<Record<string, string>>,
): Promise<string> {
  const socket = connect({ port, host: '127.0.0.1' });
  cleanups.push(() => socket.destroy());
  const text = Object.entries({ Host: '127.0.0.1', ...headers }).map(
    ([name, value]) => `${name}: ${value}\r\n`,
  );
  socket.write(`${line} HTTP/1.1\r\n${text.join('')}\r\n`);
  const [data] = (await once(socket, 'data')) as [Buffer];
  return data.toString();
}

const UPGRADE = {
  Connection: 'Upgrade',
  Upgrade: 'websocket',
  'Sec-WebSocket-Version': '13',
  'Sec-WebSocket-Key': 'AAAAAAAAAAAAAAAAAAAAAA==',
};
const RIGHT = { Authorization: 'Bearer right' };
const { 'Sec-WebSocket-Key': _, ...WITHOUT_KEY } = UPGRADE;

test.each<[string, string, Readonly<Record<string, string>>, RegExp]>([
  ['the right token', 'GET /', { ...UPGRADE, ...RIGHT }, /^HTTP\/1.1 101 /],
  [
    'no token',
    'GET /',
    UPGRADE,
    /^HTTP\/1.1 401 [\s\S]*\r\ncontent-type: text\/plain; charset=utf-8\r\n[\s\S]*\r\n\r\nnot you$/,
  ],
  ['a token in the query', 'GET /?token=right', UPGRADE, /^HTTP\/1.1 401 /],
  ['an origin and no token', 'GET /', { ...UPGRADE, Origin: 'http://page' }, /^HTTP\/1.1 403 /],
  ['an origin and the token', 'GET /', { ...UPGRADE, ...RIGHT, Origin: 'x' }, /^HTTP\/1.1 403 /],
  ['no upgrade and no token', 'GET /', {}, /^HTTP\/1.1 400 /],
  [
    'another version and no token',
    'GET /',
    { ...UPGRADE, 'Sec-WebSocket-Version': '12' },
    /^HTTP\/1.1 400 [\s\S]*`Sec-WebSocket-Version` header did not include '13'$/,
  ],
  ['no key and no token', 'GET /', WITHOUT_KEY, /^HTTP\/1.1 400 [\s\S]*`Sec-WebSocket-Key` header missing$/],
  ['a probe and no token', 'GET /readyz', {}, /^HTTP\/1.1 200 /],
  ['another path and no token', 'GET /nope', UPGRADE, /^HTTP\/1.1 404 /],
  ['an unknown host name', 'GET /', { ...UPGRADE, ...RIGHT, Host: 'evil.example' }, /^HTTP\/1.1 421 /],
  [
    'a foreign name for a probe',
    'GET /readyz',
    { Host: 'evil.example' },
    /^HTTP\/1.1 421 [\s\S]*--allowed-host/,
  ],
  ['an unknown host name and an origin', 'GET /', { Host: 'evil.example', Origin: 'x' }, /^HTTP\/1.1 421 /],
])('answers a request with %s', async (_name, line, headers, expected) => {
  const { port, principals } = await listen();
  expect(await answer(port, line, headers)).toMatch(expected);
  if (expected.source.includes('101')) expect(principals).toEqual([ROBOT]);
  else expect(principals).toEqual([]);
});

test('treats every client as anonymous without a gate', async () => {
  const { port, principals } = await listen({ gate: null });
  expect(await answer(port, 'GET /', UPGRADE)).toMatch(/^HTTP\/1.1 101 /);
  expect(principals).toEqual([anonymousPrincipal('127.0.0.1')]);
});

test('accepts a configured host name', async () => {
  const { port } = await listen({ allowedHost: 'build.example' });
  expect(await answer(port, 'GET /readyz', { Host: 'build.example:80' })).toMatch(/^HTTP\/1.1 200 /);
});

test('delays a refusal as long as the gate says, and can close meanwhile', async () => {
  const { listener, port } = await listen({ gate: async () => ({ refusal: 'no', delayMs: 3_600_000 }) });
  const socket = connect({ port, host: '127.0.0.1' });
  cleanups.push(() => socket.destroy());
  const headers = Object.entries({ Host: '127.0.0.1', ...UPGRADE });
  socket.write(`GET / HTTP/1.1\r\n${headers.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`);
  const answers: Buffer[] = [];
  socket.on('data', (data: Buffer) => answers.push(data));
  socket.on('error', () => {});
  const closed = once(socket, 'close');
  // Another client is served meanwhile, so the refusal would have been sent by now without the delay.
  expect(await answer(port, 'GET /readyz', {})).toMatch(/^HTTP\/1.1 200 /);
  await listener.close();
  await closed;
  expect(answers).toEqual([]);
});

test('logs a refusal with the address and without the token', async () => {
  const { port, lines } = await listen();
  await answer(port, 'GET /', { ...UPGRADE, Authorization: 'Bearer hunter2' });
  expect(lines.join('')).toMatch(/client refused.*not you.*127\.0\.0\.1/);
  expect(lines.join('')).not.toContain('hunter2');
});

test('refuses a client whose token is verified after the shutdown has begun', async () => {
  const { listener, port } = await listen({
    gate: async () => {
      listener.refuseConnections();
      return { principal: ROBOT };
    },
  });
  expect(await answer(port, 'GET /', UPGRADE)).toMatch(/^HTTP\/1.1 503 /);
});

test('refuses, records and logs a wrong token for the metrics like one for the websocket', async () => {
  const rejected: unknown[][] = [];
  const metrics = { contentType: 'text/plain', scrape: () => 'secret_total 1' } as unknown as ServerMetrics;
  const { port, lines } = await listen({ metrics, rejected: (...rejection) => rejected.push(rejection) });
  expect(await answer(port, 'GET /metrics', { Authorization: 'Bearer wrong' })).toMatch(/^HTTP\/1.1 401 /);
  expect(rejected).toEqual([[401, 'not you', '127.0.0.1', null]]);
  expect(lines.join('')).toContain('client refused');
  expect(await answer(port, 'GET /metrics', RIGHT)).toContain('secret_total 1');
  expect(rejected).toHaveLength(1);
});

test('refuses metrics to a token with other scopes, and records it', async () => {
  const rejected: unknown[][] = [];
  const metrics = { contentType: 'text/plain', scrape: () => 'secret_total 1' } as unknown as ServerMetrics;
  const principal = { ...ROBOT, access: { ...FULL_ACCESS, metrics: false } };
  const { port } = await listen({
    metrics,
    gate: async () => ({ principal }),
    rejected: (...rejection) => rejected.push(rejection),
  });
  const refusal = await answer(port, 'GET /metrics', RIGHT);
  expect(refusal).toMatch(/^HTTP\/1.1 403 [\s\S]*the token does not allow \/metrics: .*`metrics`$/);
  expect(rejected).toEqual([[403, expect.stringContaining('scope `metrics`'), '127.0.0.1', 'robot']]);
});
