import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { createServer as createTlsServer } from 'node:tls';
import { describe, expect, onTestFinished, test } from 'vitest';
import { ANY_HOST } from '../../../../src/network/http/host-policy.ts';
import { HttpClient, type HttpResponse } from '../../../../src/network/http/http-client.ts';
import type { HttpRequest } from '../../../../src/network/http/request.ts';
import { Certificates, pem } from '../../../support/certificates.ts';
import { waitFor } from '../../../support/wait-for.ts';

const TOO_LARGE = 'HTTP/1.1 413 Payload Too Large\r\nContent-Length: 9\r\n\r\ntoo large';

/** Rejects every request at its first byte and resets the connection. Prints its port. */
const ABRUPT_SERVER = `
  const [cert, key] = process.argv.slice(1).map((path) => require('node:fs').readFileSync(path));
  const reject = (socket) => {
    socket.on('error', () => {});
    // Closing with unread data also resets; a TLS connection can only be closed.
    const reset = () => (cert === undefined ? socket.resetAndDestroy() : socket.destroy());
    socket.once('data', () => socket.pause().write(${JSON.stringify(TOO_LARGE)}, reset));
  };
  const server = cert === undefined
    ? require('node:net').createServer(reject)
    : require('node:tls').createServer({ cert, key }, reject);
  server.listen(0, '127.0.0.1', () => console.log(server.address().port));
`;

function upload(port: number, scheme = 'http'): HttpRequest {
  return {
    method: 'POST',
    url: `${scheme}://127.0.0.1:${port}/`,
    headers: [],
    body: Buffer.alloc(8 * 1024 * 1024),
    redirect: 'follow',
    timeoutMs: null,
  };
}

async function textOf({ body }: HttpResponse): Promise<string> {
  let text = '';
  for await (const piece of body) text += piece;
  return text;
}

test.each(['http', 'https'])(
  'receives the response of an %s server that rejects an upload and resets the connection',
  async (scheme) => {
    const certificates = new Certificates();
    onTestFinished(() => certificates.remove());
    const authority = certificates.authority('authority');
    const { cert, key } = certificates.signedBy(authority, 'server');
    // In a separate process, so that its reset arrives at any moment.
    const args = ['-e', ABRUPT_SERVER, ...(scheme === 'https' ? [cert, key] : [])];
    const server = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    onTestFinished(async () => {
      const exited = once(server, 'exit');
      server.kill('SIGKILL');
      await exited;
    });
    const [port] = await once(server.stdout, 'data');
    const env = { SSL_CERT_FILE: authority.cert };
    const client = new HttpClient({ env, headerVariables: 'any', policy: ANY_HOST });
    onTestFinished(() => client.close());
    for (let count = 0; count < 20; count++) {
      const answer = await client.send(upload(Number(port), scheme), new AbortController().signal);
      expect(answer.status).toBe(413);
      expect(await textOf(answer)).toBe('too large');
    }
  },
);

test('closes the connection to a server that responds without reading the rest', async () => {
  const sockets: Socket[] = [];
  const server = createServer((socket) => {
    sockets.push(socket.on('error', () => {}));
    socket.once('data', () => socket.pause().write(TOO_LARGE));
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const client = new HttpClient({ env: {}, headerVariables: 'any', policy: ANY_HOST });
  onTestFinished(async () => {
    client.close();
    for (const socket of sockets) socket.destroy();
    server.close();
    await once(server, 'close');
  });
  const { port } = server.address() as AddressInfo;
  expect(await textOf(await client.send(upload(port), new AbortController().signal))).toBe('too large');
  // It does not read, so it notices the end only by writing.
  await waitFor('the end of the connection', () => !sockets[0]!.write(' ') && sockets[0]!.destroyed);
});

describe.each(['http', 'https'])('an %s body without a length', (scheme) => {
  test.each([
    ['is complete when the connection ends', 'end'],
    ['is incomplete when the connection is reset', 'resetAndDestroy'],
  ] as const)('%s', async (_name, end) => {
    const certificates = new Certificates();
    onTestFinished(() => certificates.remove());
    const authority = certificates.authority('authority');
    const respond = (socket: Socket) => {
      socket.on('error', () => {});
      socket.once('data', () => socket.write('HTTP/1.1 200 OK\r\n\r\npart'));
    };
    const server =
      scheme === 'http'
        ? createServer(respond)
        : createTlsServer(pem(certificates.signedBy(authority, 'server')), respond);
    const sockets: Socket[] = [];
    server.on('connection', (socket: Socket) => sockets.push(socket.on('error', () => {})));
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const env = { SSL_CERT_FILE: authority.cert };
    const client = new HttpClient({ env, headerVariables: 'any', policy: ANY_HOST });
    onTestFinished(async () => {
      client.close();
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    });
    const { port } = server.address() as AddressInfo;
    const request = { ...upload(port, scheme), method: 'GET', body: null };
    const { body } = await client.send(request, new AbortController().signal);
    const pieces = body[Symbol.asyncIterator]();
    expect(String((await pieces.next()).value)).toBe('part');
    sockets[0]![end]();
    if (end === 'end') expect((await pieces.next()).done).toBe(true);
    else await expect(pieces.next()).rejects.toThrow('the connection ended before the body did');
  });
});
