import { once } from 'node:events';
import { type AddressInfo, createServer, type Socket } from 'node:net';
import { onTestFinished } from 'vitest';

/** A TCP server for one test. */
export interface TcpPeer {
  readonly port: number;
  /** The accepted sockets that are open. */
  readonly sockets: ReadonlySet<Socket>;
  close(): Promise<void>;
}

/** Listens on a free loopback port until the end of the test. Sockets are half-open and start paused if `serve` does not read. */
export async function tcpPeer(serve: (socket: Socket) => void, host = '127.0.0.1'): Promise<TcpPeer> {
  const sockets = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    sockets.add(socket);
    socket.on('error', () => {}).once('close', () => sockets.delete(socket));
    serve(socket);
  });
  server.listen(0, host);
  await once(server, 'listening');
  const close = async () => {
    if (!server.listening) return;
    for (const socket of sockets) socket.destroy();
    server.close();
    await once(server, 'close');
  };
  onTestFinished(close);
  return { port: (server.address() as AddressInfo).port, sockets, close };
}

/** A peer that sends back what it gets, and ends after its client. */
export function echoPeer(): Promise<TcpPeer> {
  return tcpPeer((socket) => socket.pipe(socket));
}
