import { once } from 'node:events';
import { createSecureServer as createHttp2Server } from 'node:http2';
import { createServer as createHttp1Server } from 'node:https';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';
import { createServer as createTlsServer, type TLSSocket } from 'node:tls';
import { afterAll, afterEach, beforeAll, expect, test, vi } from 'vitest';
import { ANY_HOST } from '../../../../src/network/http/host-policy.ts';
import { HttpClient, type HttpResponse } from '../../../../src/network/http/http-client.ts';
import type { HttpRequest } from '../../../../src/network/http/request.ts';
import { MAX_HTTP2_RESPONSE_HEADERS } from '../../../../src/network/limits.ts';
import { Certificates, pem } from '../../../support/certificates.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { http2WebServer, secureWebServer, webServer } from '../../../support/web-servers.ts';

/** Short enough that no test waits for seconds. */
const IDLE_CONNECTION_MS = 200;

const certificates = new Certificates();
let authority: string;
let files: { cert: string; key: string };
const cleanUps: (() => unknown)[] = [];

beforeAll(() => {
  const made = certificates.authority('authority');
  authority = made.cert;
  files = pem(certificates.signedBy(made, 'server'));
});
afterAll(() => certificates.remove());
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

function client(env: Record<string, string> = { SSL_CERT_FILE: authority }): HttpClient {
  const made = new HttpClient({
    env,
    headerVariables: 'any',
    policy: ANY_HOST,
    idleConnectionMs: IDLE_CONNECTION_MS,
  });
  cleanUps.push(() => made.close());
  return made;
}

async function listening(server: Server): Promise<number> {
  const sockets = new Set<Socket>();
  server.on('connection', (socket: Socket) => {
    sockets.add(socket.on('error', () => {}));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  cleanUps.push(async () => {
    for (const socket of sockets) socket.destroy();
    server.close();
    await once(server, 'close');
  });
  return (server.address() as AddressInfo).port;
}

function get(url: string, changes: Partial<HttpRequest> = {}): HttpRequest {
  return { method: 'GET', url, headers: [], body: null, redirect: 'follow', timeoutMs: null, ...changes };
}

async function ask(via: HttpClient, request: HttpRequest, signal = new AbortController().signal) {
  const answer = await via.send(request, signal);
  return { status: answer.status, text: await textOf(answer) };
}

async function textOf({ body }: HttpResponse): Promise<string> {
  const pieces: Buffer[] = [];
  for await (const piece of body) pieces.push(piece);
  return Buffer.concat(pieces).toString();
}

test('fails only the request when a server resets connections before TLS', async () => {
  const port = await listening(createServer((socket) => socket.resetAndDestroy()));
  for (let count = 0; count < 3; count++) {
    await expect(ask(client(), get(`https://127.0.0.1:${port}/`))).rejects.toThrow('error sending request');
  }
});

test('returns any number of response headers', async () => {
  const server = await webServer((_, response) => {
    for (let index = 0; index < 3_000; index++) response.setHeader(`x-${index}`, '');
    response.end();
  });
  cleanUps.push(() => server.close());
  const { fields, cancel } = await client().send(get(server.url), new AbortController().signal);
  cancel();
  expect(fields.filter(({ name }) => name.startsWith('x-'))).toHaveLength(3_000);
});

test('returns HTTP/2 response headers up to the limit', async () => {
  const server = await http2WebServer(files, ({ url = '' }, response) => {
    for (let index = 0; index < Number(url.slice(1)); index++) response.setHeader(`x-${index}`, '');
    response.end();
  });
  cleanUps.push(() => server.close());
  const headers = async (count: number) => {
    const answer = await client().send(get(`${server.url}/${count}`), new AbortController().signal);
    answer.cancel();
    return answer.fields.filter(({ name }) => name.startsWith('x-')).length;
  };
  const most = MAX_HTTP2_RESPONSE_HEADERS - 2;
  expect(await headers(most)).toBe(most);
  await expect(headers(most + 1)).rejects.toThrow('ENHANCE_YOUR_CALM');
});

test("verifies certificates even when Node's own setting disables that", async () => {
  vi.stubEnv('NODE_TLS_REJECT_UNAUTHORIZED', '0');
  cleanUps.push(() => vi.unstubAllEnvs());
  const server = await secureWebServer(files, (_, response) => response.end('hi'));
  cleanUps.push(() => server.close());
  await expect(ask(client({}), get(server.url))).rejects.toThrow('certificate');
  expect((await ask(client(), get(server.url))).text).toBe('hi');
});

test('does not delay other requests when a handshake hangs', async () => {
  const server = await secureWebServer(files, (_, response) => response.end('hi'));
  cleanUps.push(() => server.close());
  let connections = 0;
  const port = await listening(
    createServer((socket) => {
      socket.resume();
      if (connections++ === 0) return;
      const onward = connect(server.port, '127.0.0.1').on('error', () => {});
      socket.pipe(onward).pipe(socket);
    }),
  );
  const via = client();
  const hung = new AbortController();
  const first = ask(via, get(`https://127.0.0.1:${port}/`), hung.signal);
  first.catch(() => {});
  await waitFor('the first connection', () => connections === 1);
  expect((await ask(via, get(`https://127.0.0.1:${port}/`))).text).toBe('hi');
  hung.abort(new Error('enough'));
  await expect(first).rejects.toThrow('enough');
});

test('ends the timeout of an unread response with its signal', async () => {
  const server = await webServer((_, response) => response.write('begun'));
  cleanUps.push(() => server.close());
  const [set, cleared] = [vi.spyOn(globalThis, 'setTimeout'), vi.spyOn(globalThis, 'clearTimeout')];
  cleanUps.push(() => vi.restoreAllMocks());
  const unread = new AbortController();
  await client().send(get(server.url, { timeoutMs: 1_000_000 }), unread.signal);
  const limit = set.mock.results[set.mock.calls.findIndex(([, ms]) => ms === 1_000_000)]?.value;
  expect(limit).toBeDefined();
  expect(cleared).not.toHaveBeenCalledWith(limit);
  unread.abort(new Error('enough'));
  expect(cleared).toHaveBeenCalledWith(limit);
});

test('closes an idle HTTP/2 connection after a silent request was cancelled', async () => {
  const server = await http2WebServer(files, () => {});
  cleanUps.push(() => server.close());
  const given = new AbortController();
  const silent = ask(client(), get(server.url), given.signal);
  silent.catch(() => {});
  await waitFor('the connection', () => server.connections.size > 0);
  // Longer than the idle timeout.
  await new Promise((resolve) => setTimeout(resolve, 500));
  expect(server.connections.size).toBe(1);
  given.abort(new Error('enough'));
  await expect(silent).rejects.toThrow('enough');
  await waitFor('the end of the connection', () => server.connections.size === 0);
});

test.each(['constructor', '__proto__', 'valueof'])('accepts an HTTP/2 header named %s', async (name) => {
  const seen: string[][] = [];
  const server = await http2WebServer(files, (request, response) => {
    seen.push(request.rawHeaders);
    response.end('hi');
  });
  cleanUps.push(() => server.close());
  expect((await ask(client(), get(server.url, { headers: [{ name, value: 'x' }] }))).text).toBe('hi');
  expect(seen[0]).toContain(name);
});

const [DATA, HEADERS, RST_STREAM, SETTINGS, GOAWAY] = [0, 1, 3, 4, 7] as const;
const [END_STREAM, END_HEADERS] = [1, 4] as const;
const STATUS_200 = Buffer.from([0x88]);

/** Failures of an HTTP/2 server in the middle of a body. */
const BREAKS: Record<string, (socket: TLSSocket) => void> = {
  'a reset with "cancel"': (socket) => socket.write(frame(RST_STREAM, 0, 1, word(8))),
  'a reset with "internal error"': (socket) => socket.write(frame(RST_STREAM, 0, 1, word(2))),
  'an end of the connection': (socket) => socket.end(),
  'an announced end of the connection': (socket) =>
    socket.end(frame(GOAWAY, 0, 0, Buffer.concat([word(1), word(0)]))),
};

test.each(Object.keys(BREAKS))('%s in the middle of an HTTP/2 body is an error', async (name) => {
  const port = await http2Script((socket) => BREAKS[name]!(socket));
  await expect(ask(client(), get(`https://127.0.0.1:${port}/`))).rejects.toThrow(
    'error decoding response body',
  );
});

test('accepts an HTTP/2 body that ends before its connection closes', async () => {
  const port = await http2Script((socket) => socket.end(frame(DATA, END_STREAM, 1, Buffer.from('!'))));
  expect(await ask(client(), get(`https://127.0.0.1:${port}/`))).toEqual({ status: 200, text: 'begun!' });
});

test('uses the protocol that a server chooses for each connection', async () => {
  let endAnswer = () => {};
  const full = { maxConcurrentStreams: 1 };
  const http2 = createHttp2Server({ ...files, settings: full }, (_, response) => {
    response.write('HTTP');
    endAnswer = () => response.end('/2');
  });
  const http1 = createHttp1Server(files, (_, response) => response.end('HTTP/1.1'));
  const arrived: Socket[] = [];
  const front = createServer((socket) => {
    if (arrived.push(socket) === 1) http2.emit('connection', socket);
  });
  const url = `https://127.0.0.1:${await listening(front)}/`;
  const via = client();
  // The beginning of the response shows that the connection has no free stream.
  const first = await via.send(get(url), new AbortController().signal);
  const second = ask(via, get(url));
  await waitFor('another connection', () => arrived.length === 2);
  // By the time it is ready the first one has a free stream.
  endAnswer();
  expect(await textOf(first)).toBe('HTTP/2');
  http1.emit('connection', arrived[1]);
  expect((await second).text).toBe('HTTP/1.1');
  via.close();
  await waitFor('both connections to end', () => arrived.every(({ closed }) => closed));
});

/** An HTTP/2 server that sends the beginning of a body to the first request and then calls `end`. */
function http2Script(end: (socket: TLSSocket) => void): Promise<number> {
  const server = createTlsServer({ ...files, ALPNProtocols: ['h2'] }, (socket) => {
    socket.on('error', () => {});
    socket.write(frame(SETTINGS, 0, 0));
    let received = Buffer.alloc(0);
    const read = (bytes: Buffer) => {
      received = Buffer.concat([received, bytes]);
      if (!hasHeaders(received)) return;
      socket.off('data', read).resume();
      socket.write(frame(HEADERS, END_HEADERS, 1, STATUS_200));
      socket.write(frame(DATA, 0, 1, Buffer.from('begun')));
      setTimeout(() => end(socket), 50);
    };
    socket.on('data', read);
  });
  return listening(server);
}

const PREFACE_BYTES = 24;

function hasHeaders(received: Buffer): boolean {
  for (let at = PREFACE_BYTES; at + 9 <= received.length; at += 9 + received.readUIntBE(at, 3)) {
    if (received[at + 3] === HEADERS) return true;
  }
  return false;
}

function frame(type: number, flags: number, stream: number, payload: Buffer = Buffer.alloc(0)) {
  const head = Buffer.alloc(9);
  head.writeUIntBE(payload.length, 0, 3);
  head.writeUInt8(type, 3);
  head.writeUInt8(flags, 4);
  head.writeUInt32BE(stream, 5);
  return Buffer.concat([head, payload]);
}

function word(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}
