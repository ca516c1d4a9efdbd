import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';
import type { Peer } from '../../../src/listener/connection-slots.ts';
import {
  LATE_TIMER_MS,
  MAX_REQUEST_CREDITS,
  MAX_UNANSWERED_REQUESTS,
  REQUEST_TURN_BYTES,
} from '../../../src/listener/limits.ts';
import { RequestCredits } from '../../../src/listener/request-stream.ts';
import { WebServer } from '../../../src/listener/web-server.ts';
import { createLogger } from '../../../src/observability/log.ts';
import { waitFor } from '../../support/wait-for.ts';

const REQUEST = 'GET /answer HTTP/1.1\r\nhost: a\r\n\r\n';
const UPGRADE = 'GET / HTTP/1.1\r\nhost: a\r\nconnection: Upgrade\r\nupgrade: websocket\r\n\r\n';

/** A server that counts its requests. It keeps the bytes that follow an upgrade request. */
async function start(requestTimeoutMs = 60_000) {
  const upgraded: Buffer[] = [];
  const served = new Map<string, number>();
  /** Answers requests for `/late`, those before and those to come. */
  let answerLate: () => void = () => {};
  const late = new Promise<void>((resolve) => {
    answerLate = resolve;
  });
  const server = new WebServer(
    {
      address: { kind: 'websocket', secure: false, host: '127.0.0.1', port: 0 },
      tls: null,
      requestTimeoutMs,
      maxConnections: 100,
      maxConnectionsPerAddress: 100,
      maxSockets: 100,
      log: createLogger('error', () => {}),
    },
    {
      request: (request, response) => {
        const path = request.url!;
        served.set(path, (served.get(path) ?? 0) + 1);
        request.resume().on('end', async () => {
          if (path === '/late') await late;
          response.end('x');
        });
      },
      upgrade: (request, socket, head) => {
        upgraded.push(head);
        if (request.url === '/refused') {
          socket.end('refused', () => socket.destroy());
          return;
        }
        socket.on('data', (chunk: Buffer) => upgraded.push(chunk)).resume();
      },
      evict: (socket) => socket.destroy(),
    },
  );
  const { port } = (await server.listen())!;
  onTestFinished(() => server.close());
  const client = async () => {
    const socket = connect(port, '127.0.0.1');
    onTestFinished(() => void socket.destroy());
    await once(socket, 'connect');
    return { socket, received: receivedBy(socket) };
  };
  return { client, served, answerLate, upgraded: () => Buffer.concat(upgraded) };
}

function receivedBy(socket: Socket): () => string {
  let text = '';
  socket.setEncoding('latin1').on('data', (chunk: string) => {
    text += chunk;
  });
  return () => text;
}

test('answers pipelined requests in turns: a later request of another connection does not wait for all of them', async () => {
  const { client, served } = await start();
  const [busy, other] = [await client(), await client()];
  const count = (100 * REQUEST_TURN_BYTES) / REQUEST.length;
  busy.socket.write(REQUEST.repeat(count));
  other.socket.write(REQUEST.replace('/answer', '/other'));
  await waitFor('the other answer', () => served.get('/other') === 1);
  expect(served.get('/answer') ?? 0).toBeLessThan(count);
  await waitFor('all answers', () => served.get('/answer') === Math.floor(count));
  await waitFor('the last bytes', () => busy.received().split('HTTP/1.1 200').length > count);
});

test('takes a limited number of pipelined requests before the first is answered, and the others afterwards', async () => {
  const { client, served, answerLate } = await start();
  const [busy, other] = [await client(), await client()];
  const body = 'b'.repeat(5 * REQUEST_TURN_BYTES);
  const late = `POST /late HTTP/1.1\r\nhost: a\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
  const request = REQUEST.replace('/answer', '/late');
  const perTurn = Math.ceil(REQUEST_TURN_BYTES / request.length);
  busy.socket.write(late + request.repeat(20 * perTurn));
  for (let count = 1; count <= 40; count++) {
    other.socket.write(REQUEST);
    await waitFor('an answer', () => served.get('/answer') === count);
  }
  expect(served.get('/late')).toBeLessThanOrEqual(MAX_UNANSWERED_REQUESTS + perTurn);
  answerLate();
  await waitFor('all answers', () => busy.received().split('HTTP/1.1 200').length === 2 + 20 * perTurn);
});

test('the connections of an address share a credit, of which a limited number is kept', () => {
  const credits = new RequestCredits();
  const first = credits.of({ remoteAddress: '192.0.2.1' } as Peer);
  expect(credits.of({ remoteAddress: '192.0.2.1' } as Peer)).toBe(first);
  expect(credits.of({ remoteAddress: '127.0.0.1' } as Peer)).toBe(credits.of({} as Peer));
  for (let index = 0; index < MAX_REQUEST_CREDITS - 1; index++) {
    expect(credits.of({ remoteAddress: `10.0.${index >> 8}.${index & 255}` } as Peer)).not.toBe(first);
  }
  expect(credits.of({ remoteAddress: '192.0.2.1' } as Peer)).not.toBe(first);
});

test.each([
  ['accepted', '/'],
  ['refused', '/refused'],
])('drops answers that come after an upgrade was %s', async (_, path) => {
  const { client, served, answerLate } = await start();
  const { socket, received } = await client();
  const late = REQUEST.replace('/answer', '/late');
  socket.write(`${late.repeat(2)}${UPGRADE.replace('/', path)}x`);
  await waitFor('the requests', () => served.get('/late') === 2);
  if (path === '/refused') await waitFor('the end', () => socket.closed);
  answerLate();
  const other = await client();
  other.socket.write(REQUEST);
  await waitFor('an answer', () => other.received().includes('200 OK'));
  expect(received()).toBe(path === '/' ? '' : 'refused');
});

test('passes on everything that follows an upgrade request', async () => {
  const { client, upgraded } = await start();
  const { socket } = await client();
  const bytes = Buffer.alloc(200_000, 'frames');
  socket.write(Buffer.concat([Buffer.from(UPGRADE), bytes]));
  await waitFor('the bytes', () => upgraded().length === bytes.length);
  expect(upgraded().equals(bytes)).toBe(true);
});

test.each([
  ['the first request', ''],
  ['a later request', REQUEST],
  ['a body', 'POST /body HTTP/1.1\r\nhost: a\r\ncontent-length: 50\r\n\r\n'],
])('closes a connection that does not send %s in time', async (_name, before) => {
  const { client } = await start(300);
  const { socket, received } = await client();
  socket.write(`${before}GET / HT`);
  await once(socket, 'close');
  expect(received()).toContain('HTTP/1.1 408 Request Timeout');
});

test.each(['arrived in time', 'is on its way'])(
  'answers a request that %s when the process was too busy to read it',
  async (when) => {
    const requestTimeoutMs = 1_000;
    const { client, served } = await start(requestTimeoutMs);
    const { socket, received } = await client();
    socket.write(REQUEST);
    await waitFor('the first answer', () => received().includes('HTTP/1.1 200'));
    if (when === 'arrived in time') socket.write(REQUEST);
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, requestTimeoutMs + 2 * LATE_TIMER_MS);
    if (when === 'is on its way') setImmediate(() => socket.write(REQUEST));
    await waitFor('an answer', () => received().split('HTTP/1.1').length === 3);
    expect(received()).not.toContain('408');
    expect(served.get('/answer')).toBe(2);
  },
);
