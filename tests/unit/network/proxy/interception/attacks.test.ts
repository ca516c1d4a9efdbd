import { once } from 'node:events';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { createServer as createTlsServer, type Server, connect as secure, type TLSSocket } from 'node:tls';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { MAX_HEADER_BYTES } from '../../../../../src/network/proxy/limits.ts';
import { pem } from '../../../../support/certificates.ts';
import { CREDENTIAL, EchoServers, type MaskingFixture, openMaskingFixture } from './masking-fixture.ts';

/** A web server that sends the same response to everything and records the bytes it receives. */
class RawServer {
  readonly server: Server;
  received = '';
  answer = ANSWER;
  names: (string | false | null)[] = [];
  readonly #sockets = new Set<Socket>();

  constructor(certificate: { cert: Buffer | string; key: Buffer | string }) {
    this.server = createTlsServer(certificate, (socket: TLSSocket) => {
      this.#sockets.add(socket);
      this.names.push(socket.servername || null);
      socket.on('error', () => {});
      socket.on('close', () => this.#sockets.delete(socket));
      socket.on('data', (data) => {
        this.received += data.toString('latin1');
        socket.write(Buffer.from(this.answer, 'latin1'));
      });
    });
  }

  get port(): number {
    return (this.server.address() as AddressInfo).port;
  }

  async close(): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    this.server.close();
    await once(this.server, 'close');
  }
}

const ANSWER = 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok';

let echo: EchoServers;
let raw: RawServer;
let fixture: MaskingFixture;
let mask = '';

beforeAll(async () => {
  echo = await new EchoServers().listen();
  raw = new RawServer(pem(echo.certificates.signedBy(echo.authority, 'raw')));
  raw.server.listen(0, '127.0.0.1');
  await once(raw.server, 'listening');
});
afterAll(async () => {
  await raw.close();
  await echo.close();
});
beforeEach(async () => {
  Object.assign(raw, { received: '', answer: ANSWER, names: [] });
  const acme = {
    env: ['ACME_KEY'],
    patterns: ['acme_[a-z]{24}'],
    auth: ['bearer' as const],
    url_prefixes: [`https://127.0.0.1:${raw.port}/v1`],
  };
  fixture = await openMaskingFixture(echo, { credentialProviders: { acme } });
  mask = fixture.env.ACME_KEY ?? '';
});
afterEach(() => fixture.close());

/** Sends bytes to the host in a TLS connection and returns everything received until the other side closes. */
async function sent(bytes: string, { host = '127.0.0.1', name = '127.0.0.1' } = {}): Promise<string> {
  const { port, username, password } = new URL(fixture.env.HTTP_PROXY ?? '');
  const socket = connect(Number(port), '127.0.0.1');
  const proof = Buffer.from(`${username}:${password}`).toString('base64');
  socket.write(`CONNECT ${host}:${raw.port} HTTP/1.1\r\nProxy-Authorization: Basic ${proof}\r\n\r\n`);
  await once(socket, 'data');
  const identity = name === '127.0.0.1' ? { host: name } : { servername: name };
  // Other tests verify the certificate.
  const inside = secure({ socket, ...identity, rejectUnauthorized: false });
  inside.on('error', () => {});
  inside.write(Buffer.from(bytes, 'latin1'));
  let text = '';
  inside.on('data', (data) => {
    text += data.toString('latin1');
  });
  await once(inside, 'close');
  return text;
}

/** A request with the mask that closes its connection. */
function request(path: string, headers: readonly string[] = [], body = ''): string {
  const lines = [`GET ${path} HTTP/1.1`, `Host: 127.0.0.1:${raw.port}`, `Authorization: Bearer ${mask}`];
  return `${[...lines, ...headers, 'Connection: close', '', ''].join('\r\n')}${body}`;
}

test('reaches the host without an attack', async () => {
  expect(await sent(request('/v1/x'))).toMatch(/^HTTP\/1\.1 200 OK[\s\S]*ok$/);
  expect(raw.received).toContain(`Authorization: Bearer ${CREDENTIAL}\r\n`);
});

describe('rejects a message whose end is ambiguous', () => {
  test.each([
    ['a length and chunks', ['Content-Length: 4', 'Transfer-Encoding: chunked']],
    ['chunks and a length', ['Transfer-Encoding: chunked', 'Content-Length: 4']],
    ['two lengths', ['Content-Length: 4', 'Content-Length: 0']],
    ['a length with a sign', ['Content-Length: +4']],
    ['an unknown encoding', ['Transfer-Encoding: xchunked']],
    ['chunks twice', ['Transfer-Encoding: chunked', 'Transfer-Encoding: chunked']],
    ['chunks and something else', ['Transfer-Encoding: gzip, chunked']],
    ['a name with a space behind it', ['Transfer-Encoding : chunked']],
    ['a header that goes on in the next line', ['Transfer-Encoding:', ' chunked']],
  ])('%s', async (_name, headers) => {
    const answer = await sent(request('/v1/x', headers, '0\r\n\r\n'));
    expect(answer).toMatch(/^HTTP\/1\.1 (?:400|501) /);
    expect(raw.received).toBe('');
  });

  test.each(['X: a\rY: b', 'X: a\0b', 'X\0: a', 'X'])('rejects a header like %j', async (header) => {
    expect(await sent(request('/v1/x', [header]))).toMatch(/^HTTP\/1\.1 400 /);
    expect(raw.received).toBe('');
  });
});

describe('accepts a request only for the host of its connection', () => {
  test.each([
    ['another host in its first line', () => request('https://other.test/v1/x')],
    ['its own host in its first line', () => request(`https://127.0.0.1:${raw.port}/v1/x`)],
    ['a second Host', () => request('/v1/x', ['Host: other.test'])],
    ['a connection in the connection', () => request('/').replace(/^GET \S+/, 'CONNECT other.test:443')],
    ['HTTP/2', () => 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
    ['a head that is too long', () => request('/v1/x', [`X: ${'x'.repeat(MAX_HEADER_BYTES)}`])],
  ])('%s', async (_name, bytes) => {
    expect(await sent(bytes())).not.toMatch(/^HTTP\/1\.1 2/);
    expect(raw.received).toBe('');
  });

  test('whatever server name its TLS handshake sends', async () => {
    await sent(request('/v1/x'), { name: 'other.test' });
    expect(raw.received).toContain(CREDENTIAL);
    expect(raw.names).toEqual([null]);
  });

  test('with the spelling that was checked', async () => {
    const bytes = request('/v1/x').replace(/Host: .*/, `hOST: 127.0.0.1.:${raw.port}`);
    await sent(bytes, { host: '127.0.0.1.' });
    expect(raw.received).toContain(`\r\nHost: 127.0.0.1:${raw.port}\r\n`);
    expect(raw.received).toContain(CREDENTIAL);
  });
});

describe('sends the mask', () => {
  test.each([
    ['behind a mark that ends the path for some', '/v1/x#/../../v2'],
    ['behind an end of text', '/v1/..%00/v2'],
    ['by more dots than two', '/v1/.../v2'],
    ['by a space behind dots', '/v1/..%20/v2'],
    ['by an overlong spelling', '/v1/%c0%ae%c0%ae/v2'],
    ['by bytes that are no characters', '/v1/\xe9/v2'],
  ])('%s', async (_name, path) => {
    await sent(request(path));
    expect(raw.received).not.toContain(CREDENTIAL);
  });

  test('in the query, in a cookie and in trailers', async () => {
    const headers = [`Cookie: key=${mask}`, 'Transfer-Encoding: chunked', 'Trailer: Authorization'];
    const body = `0\r\nAuthorization: Bearer ${mask}\r\n\r\n`;
    const bytes = request(`/v1/x?key=${mask}`, headers, body);
    await sent(bytes.replace(/\r\nAuthorization: .*/, ''));
    expect(raw.received).toContain(`GET /v1/x?key=${mask} `);
    expect(raw.received).not.toContain(CREDENTIAL);
    expect(raw.received).not.toContain('Authorization');
  });

  test('in a pipelined request for another path', async () => {
    await sent(request('/v1/x').replace('Connection: close\r\n', '') + request('/v2'));
    const [, first = '', second = ''] = raw.received.split('GET ');
    expect(first).toContain(CREDENTIAL);
    expect(second).toMatch(/^\/v2 /);
    expect(second).toContain(`Bearer ${mask}`);
    expect(second).not.toContain(CREDENTIAL);
  });
});

describe('handles an invalid response', () => {
  test.each([
    ['characters that no status has', 'HTTP/1.1 200 O\x01K\r\nContent-Length: 0\r\n\r\n'],
    ['a status that is none', 'HTTP/1.1 099 X\r\nContent-Length: 0\r\n\r\n'],
    ['another protocol that nobody asked for', 'HTTP/1.1 101 X\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n'],
    [
      'a length and chunks',
      'HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    ],
  ])('%s', async (_name, answer) => {
    raw.answer = answer;
    expect(await sent(request('/v1/x'))).toMatch(/^HTTP\/1\.1 502 Bad Gateway\r\n/);
  });

  test('drops early hints and forwards the response', async () => {
    raw.answer = `HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n${ANSWER}`;
    expect(await sent(request('/v1/x'))).toMatch(/^HTTP\/1\.1 200 OK[\s\S]*ok$/);
  });
});
