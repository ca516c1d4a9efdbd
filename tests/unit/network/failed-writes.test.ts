import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer as createWebServer, type IncomingMessage, request } from 'node:http';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { TLSSocket } from 'node:tls';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { LenientSocket, ReliableAgent } from '../../../src/network/failed-writes.ts';
import { connectSecurely } from '../../../src/network/tls-over-socket.ts';
import { Certificates, pem } from '../../support/certificates.ts';
import { waitFor } from '../../support/wait-for.ts';

const certificates = new Certificates();
let authority: string;
let identity: { cert: string; key: string };

beforeAll(() => {
  const files = certificates.authority('authority');
  authority = readFileSync(files.cert, 'utf8');
  identity = pem(certificates.signedBy(files, 'server'));
});
afterAll(() => certificates.remove());

/** Records whether it keeps the process running. */
class ObservedSocket extends LenientSocket {
  keepsRunning = true;

  override ref(): this {
    this.keepsRunning = true;
    return super.ref();
  }

  override unref(): this {
    this.keepsRunning = false;
    return super.unref();
  }
}

/** Both ends of a connection with this many layers of TLS, and their TCP sockets. */
async function connection(
  layers: number,
): Promise<{ client: Socket; tcp: ObservedSocket; server: Socket; accepted: Socket }> {
  const listener = createServer({ allowHalfOpen: true }).listen(0, '127.0.0.1');
  await once(listener, 'listening');
  const { port } = listener.address() as AddressInfo;
  const tcp = new ObservedSocket({ allowHalfOpen: true }).connect(port, '127.0.0.1');
  const [[accepted]] = (await Promise.all([once(listener, 'connection'), once(tcp, 'connect')])) as [
    [Socket],
    unknown,
  ];
  onTestFinished(async () => {
    tcp.destroy();
    accepted.destroy();
    listener.close();
    await once(listener, 'close');
  });
  // Otherwise the kernel holds a response back until the client acknowledges earlier data (Nagle's algorithm), and a reset discards it.
  accepted.setNoDelay(true);
  let client: LenientSocket | TLSSocket = tcp;
  let server = accepted.on('error', () => {});
  for (let layer = 0; layer < layers; layer++) {
    server = new TLSSocket(server, { isServer: true, ...identity }).on('error', () => {});
    client = connectSecurely(client, { host: '127.0.0.1', ca: authority });
    await once(client, 'secureConnect');
    // The server has completed the handshake when it receives data.
    client.write('\r\n');
    await once(server, 'data');
    server.pause();
  }
  return { client, tcp, server, accepted };
}

/** A connection whose server has just sent a response. While TLS still writes session tickets it would send later: then another one. */
async function answeredConnection(layers: number): Promise<{ client: Socket; accepted: Socket }> {
  for (;;) {
    const { client, server, accepted } = await connection(layers);
    const before = accepted.bytesWritten;
    server.write('refused');
    if (accepted.bytesWritten > before) return { client, accepted };
  }
}

test.each([0, 1, 2])(
  'reads a socket to its end after a write error, with %i layers of TLS',
  async (layers) => {
    const { client, accepted } = await answeredConnection(layers);
    let text = '';
    client.on('data', (data) => {
      text += data;
    });
    const errors: unknown[] = [];
    client.on('error', (error) => errors.push(error));
    accepted.resetAndDestroy();
    // The response and the reset have arrived by now and have not been read.
    for (const part of ['a', 'b', 'c']) client.write(part);
    await once(client, 'close');
    expect({ text, errors }).toEqual({ text: 'refused', errors: [] });
  },
);

test.each([0, 1, 2])(
  'closes a socket that has been read to its end at the next write error, with %i layers of TLS',
  async (layers) => {
    const { client, server, accepted } = await connection(layers);
    client.resume();
    server.end();
    await once(client, 'end');
    accepted.destroy();
    await waitFor('the close', () => {
      client.write('a');
      return client.closed;
    });
  },
);

test.each([0, 1, 2])(
  'an idle connection with %i layers of TLS does not keep the process running',
  async (layers) => {
    const { client, tcp, server } = await connection(layers);
    createWebServer((_, response) => response.end('ok')).emit('connection', server);
    server.resume();
    const agent = new (class extends ReliableAgent {
      override createConnection = () => client;
    })({ keepAlive: true });
    onTestFinished(() => agent.destroy());
    for (let count = 0; count < 2; count++) {
      const [answer] = (await once(request({ agent }).end(), 'response')) as [IncomingMessage];
      expect(tcp.keepsRunning).toBe(true);
      answer.resume();
      await waitFor('the connection to be idle', () => Object.keys(agent.freeSockets).length > 0);
      expect(tcp.keepsRunning).toBe(false);
    }
  },
);
