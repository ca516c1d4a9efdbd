import { once } from 'node:events';
import { createServer, type IncomingMessage } from 'node:http';
import { type AddressInfo, connect, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { onTestFinished } from 'vitest';
import { WebSocket } from 'ws';
import type { Transport } from '../../../src/transport/transport.ts';
import { type WebSocketServerOptions, WebSocketUpgrader } from '../../../src/transport/websocket.ts';
import { RecordedEvents } from './recorded-events.ts';

/** Opcodes of frames. */
export const [TEXT, BINARY, CLOSE, PING, PONG] = [0x1, 0x2, 0x8, 0x9, 0xa];

/** No limits that a test could reach, and no pings. */
export const QUIET: WebSocketServerOptions = {
  maxMessageBytes: 1_000,
  maxUnfinishedBytes: 100_000_000,
  pingIntervalMs: 0,
  peerSilenceTimeoutMs: 0,
};

/**
 * A server on a free port. `accepted` yields the transports of its clients in order. Without `areNewPeers` the
 * clients count as initialized.
 */
export async function listen(options: Partial<WebSocketServerOptions> = {}, areNewPeers = false) {
  const upgrader = new WebSocketUpgrader({ ...QUIET, ...options });
  const waiting: ((transport: Transport) => void)[] = [];
  const arrived: Transport[] = [];
  const sockets: Socket[] = [];
  const server = createServer();
  server.on('upgrade', (request: IncomingMessage, socket: Duplex, head: Buffer) => {
    sockets.push(socket as Socket);
    upgrader.upgrade(request, socket, head, (transport) => {
      if (!areNewPeers) transport.peerInitialized?.();
      const next = waiting.shift();
      if (next === undefined) arrived.push(transport);
      else next(transport);
    });
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  onTestFinished(() => void server.close());
  const accepted = (): Promise<Transport> => {
    const transport = arrived.shift();
    return transport === undefined
      ? new Promise((resolve) => waiting.push(resolve))
      : Promise.resolve(transport);
  };
  return { port, url: `ws://127.0.0.1:${port}`, accepted, sockets };
}

/** A bare websocket client, and the server's end of it with the underlying socket. */
export async function pair(options: Partial<WebSocketServerOptions> = {}) {
  const server = await listen(options);
  const client = new WebSocket(server.url, { autoPong: false });
  onTestFinished(() => client.terminate());
  await once(client, 'open');
  const transport = await server.accepted();
  return { client, transport, events: RecordedEvents.of(transport), socket: server.sockets[0]! };
}

/** A client that writes websocket frames by hand. */
export async function rawClient(server: { port: number }): Promise<Socket> {
  const socket = connect(server.port, '127.0.0.1');
  onTestFinished(() => void socket.destroy());
  socket.on('error', () => {});
  socket.write(
    'GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n' +
      'Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n',
  );
  await once(socket, 'data');
  return socket;
}

/** A masked frame with a short payload; a zero mask leaves it readable. */
export function frame(opcode: number, payload: string | Buffer): Buffer {
  const bytes = Buffer.from(payload);
  return Buffer.concat([Buffer.of(0x80 | opcode, 0x80 | bytes.length, 0, 0, 0, 0), bytes]);
}
