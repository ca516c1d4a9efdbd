import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import { afterEach, expect, test } from 'vitest';
import { keepReadableAfterWriteError } from '../../../../src/network/failed-writes.ts';
import { pem } from '../../../support/certificates.ts';
import { EchoServers, maskedScene } from './interception/masked-scene.ts';
import { closeScenes, exchange, openScene, openWebServer, type Scene } from './scene.ts';

const LOOPBACK = { '127.0.0.1': 'allow' } as const;
const UPLOAD = Buffer.alloc(8 * 1024 * 1024, 'u');
const TOO_LARGE = 'HTTP/1.1 413 Payload Too Large\r\nContent-Length: 9\r\n\r\ntoo large';

const cleanUps: (() => unknown)[] = [];

afterEach(async () => {
  await closeScenes();
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

/** A web server that says the same to everybody as soon as it hears anything, and resets the connection. */
async function abruptServer(answer: string, certificate?: { cert: string; key: string }): Promise<number> {
  const secure = certificate === undefined ? null : createTlsServer(certificate);
  const server = secure ?? createServer();
  server.on(secure === null ? 'connection' : 'secureConnection', (socket) => {
    socket.on('error', () => {});
    // One that is closed with something unread is reset, too; what speaks TLS can only be closed.
    const reset = () => (secure === null ? socket.resetAndDestroy() : socket.destroy());
    socket.once('data', () => socket.pause().write(answer, reset));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  cleanUps.push(() => new Promise((resolve) => server.close(resolve)));
  return (server.address() as AddressInfo).port;
}

function upload(scene: Scene, port: number, more = ''): Buffer {
  const authority = `127.0.0.1:${port}`;
  const lines = [`POST http://${authority}/ HTTP/1.1`, `Host: ${authority}`, scene.authorization];
  const head = `${lines.join('\r\n')}\r\nContent-Length: ${UPLOAD.length}\r\n${more}\r\n`;
  return Buffer.concat([Buffer.from(head), UPLOAD]);
}

test('a web server that refuses an upload and resets the connection has its answer heard', async () => {
  const scene = await openScene({ domains: LOOPBACK });
  const port = await abruptServer(TOO_LARGE);
  const answer = await exchange(scene.httpPort, [upload(scene, port, 'Connection: close\r\n')]);
  expect(answer).toMatch(/^HTTP\/1\.1 413 Payload Too Large\r\n.*\r\n\r\ntoo large$/s);
});

test('the rest of a refused upload is dropped, and the connection serves the next request', async () => {
  const scene = await openScene({ domains: LOOPBACK });
  const port = await abruptServer(TOO_LARGE);
  const { port: next } = await openWebServer();
  const then = `GET http://127.0.0.1:${next}/ HTTP/1.1\r\nHost: 127.0.0.1:${next}\r\n${scene.authorization}\r\n\r\n`;
  const answers = await exchange(scene.httpPort, [upload(scene, port), then], (text) =>
    text.endsWith('from upstream'),
  );
  expect(answers.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 413', 'HTTP/1.1 200']);
});

test('a refusal that breaks off arrives as far as it came', async () => {
  const scene = await openScene({ domains: LOOPBACK });
  const port = await abruptServer(TOO_LARGE.replace('Length: 9', 'Length: 99'));
  const answer = await exchange(scene.httpPort, [upload(scene, port)]);
  expect(answer).toMatch(/^HTTP\/1\.1 413 Payload Too Large\r\n.*\r\n\r\ntoo large$/s);
});

test('an upload that is cut off without an answer is a 502', async () => {
  const scene = await openScene({ domains: LOOPBACK });
  const port = await abruptServer('');
  const answer = await exchange(scene.httpPort, [upload(scene, port, 'Connection: close\r\n')]);
  expect(answer).toMatch(/^HTTP\/1\.1 502 .*upstream failure$/s);
});

test.each([
  ['the web server', 413],
  ['the proxy', 403],
])('a client that reads when it has sent everything gets the refusal of %s', async (who, status) => {
  const scene = await openScene({ domains: who === 'the proxy' ? {} : LOOPBACK });
  const port = await abruptServer(TOO_LARGE);
  const client = connect(scene.httpPort, '127.0.0.1').pause();
  cleanUps.push(() => client.destroy());
  await new Promise<void>((resolve, reject) => {
    client.write(upload(scene, port, 'Connection: close\r\n'), (error) =>
      error == null ? resolve() : reject(error),
    );
  });
  const [answer] = await once(client.resume(), 'data');
  expect(String(answer)).toMatch(new RegExp(`^HTTP/1\\.1 ${status} `));
});

test('a refusal is heard inside of a connection that is looked into', async () => {
  const echo = await new EchoServers().listen();
  cleanUps.push(() => echo.close());
  const port = await abruptServer(TOO_LARGE, pem(echo.certificates.signedBy(echo.authority, 'abrupt')));
  const acme = {
    env: ['ACME_KEY'],
    patterns: ['acme_[a-z]{24}'],
    auth: ['bearer' as const],
    url_prefixes: [`https://127.0.0.1:${port}/v1`],
  };
  const scene = await maskedScene(echo, { credentialProviders: { acme } });
  cleanUps.push(() => scene.close());
  const url = `https://127.0.0.1:${port}/v1/x`;
  const sending = ['-H', 'Expect:', '--data-binary', 'u'.repeat(100_000)];
  expect(await scene.curl(...sending, '-w', ' %{http_code}', url)).toBe('too large 413');
});

test('a socket whose write fails is read to its end, and ends', async () => {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  cleanUps.push(() => new Promise((resolve) => server.close(resolve)));
  await once(server, 'listening');
  const accepted = once(server, 'connection');
  const socket = connect({ port: (server.address() as AddressInfo).port, allowHalfOpen: true });
  const [[other]] = await Promise.all([accepted, once(socket, 'connect')]);
  keepReadableAfterWriteError(socket);
  let text = '';
  socket.on('data', (data) => {
    text += data;
  });
  const errors: unknown[] = [];
  socket.on('error', (error) => errors.push(error));
  other.write('refused');
  other.resetAndDestroy();
  // The answer and the reset have arrived by now, and neither has been looked at.
  for (const part of ['a', 'b', 'c']) socket.write(part);
  await once(socket, 'close');
  expect({ text, errors }).toEqual({ text: 'refused', errors: [] });
});
