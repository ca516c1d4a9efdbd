import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import { afterEach, expect, test, vi } from 'vitest';
import { LINGER_MS } from '../../../../src/network/proxy/limits.ts';
import { pem } from '../../../support/certificates.ts';
import { EchoServers, openMaskingFixture } from './interception/masking-fixture.ts';
import { closeFixtures, exchange, openFixture, openWebServer, type ProxyFixture } from './proxy-fixture.ts';

const LOOPBACK = { '127.0.0.1': 'allow' } as const;
const UPLOAD = Buffer.alloc(8 * 1024 * 1024, 'u');
const TOO_LARGE = 'HTTP/1.1 413 Payload Too Large\r\nContent-Length: 9\r\n\r\ntoo large';

const cleanUps: (() => unknown)[] = [];

afterEach(async () => {
  await closeFixtures();
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

/** A web server that sends the same response at the first byte and resets the connection. */
async function abruptServer(answer: string, certificate?: { cert: string; key: string }): Promise<number> {
  const secure = certificate === undefined ? null : createTlsServer(certificate);
  const server = secure ?? createServer();
  server.on(secure === null ? 'connection' : 'secureConnection', (socket) => {
    socket.on('error', () => {});
    // Closing with unread data also resets; a TLS connection can only be closed.
    const reset = () => (secure === null ? socket.resetAndDestroy() : socket.destroy());
    socket.once('data', () => socket.pause().write(answer, reset));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  cleanUps.push(() => new Promise((resolve) => server.close(resolve)));
  return (server.address() as AddressInfo).port;
}

function upload(fixture: ProxyFixture, port: number, more = ''): Buffer {
  const authority = `127.0.0.1:${port}`;
  const lines = [`POST http://${authority}/ HTTP/1.1`, `Host: ${authority}`, fixture.authorization];
  const head = `${lines.join('\r\n')}\r\nContent-Length: ${UPLOAD.length}\r\n${more}\r\n`;
  return Buffer.concat([Buffer.from(head), UPLOAD]);
}

test('forwards the response of a web server that rejects an upload and resets the connection', async () => {
  const fixture = await openFixture({ domains: LOOPBACK });
  const port = await abruptServer(TOO_LARGE);
  const answer = await exchange(fixture.httpPort, [upload(fixture, port, 'Connection: close\r\n')]);
  expect(answer).toMatch(/^HTTP\/1\.1 413 Payload Too Large\r\n.*\r\n\r\ntoo large$/s);
});

test('drops the rest of a rejected upload and serves the next request', async () => {
  const fixture = await openFixture({ domains: LOOPBACK });
  const port = await abruptServer(TOO_LARGE);
  const { port: next } = await openWebServer();
  const then = `GET http://127.0.0.1:${next}/ HTTP/1.1\r\nHost: 127.0.0.1:${next}\r\n${fixture.authorization}\r\n\r\n`;
  const answers = await exchange(fixture.httpPort, [upload(fixture, port), then], (text) =>
    text.endsWith('from upstream'),
  );
  expect(answers.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 413', 'HTTP/1.1 200']);
});

test('forwards an incomplete response as far as it was received', async () => {
  const fixture = await openFixture({ domains: LOOPBACK });
  const port = await abruptServer(TOO_LARGE.replace('Length: 9', 'Length: 99'));
  const answer = await exchange(fixture.httpPort, [upload(fixture, port)]);
  expect(answer).toMatch(/^HTTP\/1\.1 413 Payload Too Large\r\n.*\r\n\r\ntoo large$/s);
});

test('returns 502 when an upload breaks off without a response', async () => {
  const fixture = await openFixture({ domains: LOOPBACK });
  const port = await abruptServer('');
  const answer = await exchange(fixture.httpPort, [upload(fixture, port, 'Connection: close\r\n')]);
  expect(answer).toMatch(/^HTTP\/1\.1 502 .*upstream failure$/s);
});

test.each([
  ['the web server', 413],
  ['the proxy', 403],
])('sends the rejection of %s to a client that reads after sending everything', async (who, status) => {
  const fixture = await openFixture({ domains: who === 'the proxy' ? {} : LOOPBACK });
  const port = await abruptServer(TOO_LARGE);
  const client = connect(fixture.httpPort, '127.0.0.1').pause();
  cleanUps.push(() => client.destroy());
  await new Promise<void>((resolve, reject) => {
    client.write(upload(fixture, port, 'Connection: close\r\n'), (error) =>
      error == null ? resolve() : reject(error),
    );
  });
  const [answer] = await once(client.resume(), 'data');
  expect(String(answer)).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
});

/** A web server whose response has no length. The connection ends after a part of the body. */
async function endingServer(end: 'end' | 'resetAndDestroy'): Promise<number> {
  const server = createServer((socket) => {
    socket.on('error', () => {});
    // The proxy has read the first part when it confirms it, so the reset does not overtake it.
    socket.once('data', () => socket.write('HTTP/1.1 200 OK\r\n\r\npart of a body'));
    cut.push(() => socket[end]());
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  cleanUps.push(() => new Promise((resolve) => server.close(resolve)));
  return (server.address() as AddressInfo).port;
}

const cut: (() => void)[] = [];

test.each([
  ['end', true],
  ['resetAndDestroy', false],
] as const)('completes a response without a length only after a proper end: %s', async (end, isComplete) => {
  const fixture = await openFixture({ domains: LOOPBACK });
  const authority = `127.0.0.1:${await endingServer(end)}`;
  const lines = [
    `GET http://${authority}/ HTTP/1.1`,
    `Host: ${authority}`,
    fixture.authorization,
    'Connection: close',
  ];
  const answer = await exchange(fixture.httpPort, [`${lines.join('\r\n')}\r\n\r\n`], (text) => {
    if (text.includes('part of a body')) cut.shift()?.();
    return false;
  });
  expect(answer).toContain('part of a body');
  expect(answer.endsWith('0\r\n\r\n')).toBe(isComplete);
});

test('closes the connection of a client that has its response and does not end its request', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  cleanUps.push(() => vi.useRealTimers());
  const fixture = await openFixture();
  const client = connect(fixture.httpPort, '127.0.0.1');
  cleanUps.push(() => client.destroy());
  client.write(upload(fixture, 1, 'Connection: close\r\n').subarray(0, 100_000));
  const [answer] = await once(client, 'data');
  expect(String(answer)).toMatch(/^HTTP\/1\.1 403 .*Content-Length/is);
  const closed = once(client.resume(), 'close');
  await vi.advanceTimersByTimeAsync(LINGER_MS);
  await closed;
});

/** A proxy that intercepts the connections to this port, and an open connection through it. */
async function interceptedClient(
  port: number,
  { mode = 'full', host = `127.0.0.1:${port}` }: { mode?: 'limited' | 'full'; host?: string } = {},
): Promise<{ client: Socket; upload: Buffer }> {
  const echo = await new EchoServers().listen();
  cleanUps.push(() => echo.close());
  const acme = {
    env: ['ACME_KEY'],
    patterns: ['acme_[a-z]{24}'],
    auth: ['bearer' as const],
    url_prefixes: [`http://127.0.0.1:${port}/v1`],
  };
  const fixture = await openMaskingFixture(echo, { mode, credentialProviders: { acme } });
  cleanUps.push(() => fixture.close());
  const { port: proxyPort, username, password } = new URL(fixture.env.HTTP_PROXY ?? '');
  const client = connect(Number(proxyPort), '127.0.0.1').on('error', () => {});
  cleanUps.push(() => client.destroy());
  const authority = `127.0.0.1:${port}`;
  const token = Buffer.from(`${username}:${password}`).toString('base64');
  client.write(`CONNECT ${authority} HTTP/1.1\r\nProxy-Authorization: Basic ${token}\r\n\r\n`);
  const [answer] = await once(client, 'data');
  expect(String(answer)).toMatch(/^HTTP\/1\.1 200 /);
  // More than the buffers of the sockets hold.
  const body = Buffer.alloc(4 * UPLOAD.length, 'u');
  const head = `POST /v1 HTTP/1.1\r\nHost: ${host}\r\nContent-Length: ${body.length}\r\n\r\n`;
  return { client: client.pause(), upload: Buffer.concat([Buffer.from(head), body]) };
}

test.each([
  ['a rejection', TOO_LARGE, 413],
  ['an error', '', 502],
])('reads the rest of an intercepted upload after %s', async (_what, answer, status) => {
  const { client, upload } = await interceptedClient(await abruptServer(answer));
  await new Promise<void>((resolve, reject) => {
    client.write(upload, (error) => (error == null ? resolve() : reject(error)));
  });
  let text = '';
  client.on('data', (data) => {
    text += data;
  });
  await once(client.resume(), 'end');
  expect(text).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
});

test.each([
  ['another host', 400, { host: 'other.test' }],
  ['a method of limited mode', 403, { mode: 'limited' }],
] as const)(
  'reads the rest of an upload refused for %s when the web server disconnects',
  async (_what, status, options) => {
    const server = createServer((socket) => void socket.on('error', () => {}));
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    cleanUps.push(() => new Promise((resolve) => server.close(resolve)));
    const accepted = once(server, 'connection');
    const { client, upload } = await interceptedClient((server.address() as AddressInfo).port, options);
    const [upstream] = (await accepted) as [Socket];
    client.write(upload.subarray(0, 100_000));
    const [answer] = await once(client.resume(), 'data');
    expect(String(answer)).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
    upstream.resetAndDestroy();
    const ended = once(client, 'end');
    await new Promise<void>((resolve, reject) => {
      client.write(upload.subarray(100_000), (error) => (error == null ? resolve() : reject(error)));
    });
    await ended;
  },
);

test('closes an intercepted connection whose client does not end a rejected upload', async () => {
  const { client, upload } = await interceptedClient(await abruptServer(TOO_LARGE));
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  cleanUps.push(() => vi.useRealTimers());
  client.write(upload.subarray(0, 100_000));
  const [answer] = await once(client.resume(), 'data');
  expect(String(answer)).toMatch(/^HTTP\/1\.1 413 /);
  // The client can receive the response before the proxy starts to wait.
  while (!client.closed) await vi.advanceTimersByTimeAsync(LINGER_MS);
});

test('forwards a rejection inside an intercepted connection', async () => {
  const echo = await new EchoServers().listen();
  cleanUps.push(() => echo.close());
  const port = await abruptServer(TOO_LARGE, pem(echo.certificates.signedBy(echo.authority, 'abrupt')));
  const acme = {
    env: ['ACME_KEY'],
    patterns: ['acme_[a-z]{24}'],
    auth: ['bearer' as const],
    url_prefixes: [`https://127.0.0.1:${port}/v1`],
  };
  const fixture = await openMaskingFixture(echo, { credentialProviders: { acme } });
  cleanUps.push(() => fixture.close());
  const url = `https://127.0.0.1:${port}/v1/x`;
  const sending = ['-H', 'Expect:', '--data-binary', 'u'.repeat(100_000)];
  expect(await fixture.curl(...sending, '-w', ' %{http_code}', url)).toBe('too large 413');
});
