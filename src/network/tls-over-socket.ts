import { Duplex } from 'node:stream';
import { type ConnectionOptions, connect, type TLSSocket } from 'node:tls';
import { type LenientSocket, setTcpSocket, tcpSocketOf } from './failed-writes.ts';

/** Starts TLS on a connection, which then stays readable after a write error too. The connection may use TLS already. */
export function connectSecurely(
  socket: LenientSocket | TLSSocket,
  options: Omit<ConnectionOptions, 'socket'>,
): TLSSocket {
  const tcp = tcpSocketOf(socket)!;
  const { allowHalfOpen } = socket;
  const secured = connect({ ...options, socket: socket === tcp ? new Carrier(tcp) : socket });
  secured.allowHalfOpen = allowHalfOpen;
  setTcpSocket(secured, tcp);
  secured.once('end', () => {
    if (tcp.isBroken) secured.destroy();
  });
  tcp.once('close', () => {
    if (secured.readableEnded) secured.destroy();
  });
  secured.once('close', () => tcp.destroy());
  return secured;
}

/**
 * The bytes of a socket as a plain stream. On a socket TLS would bypass its `_write`. It stays open until TLS closes it or the
 * socket has an error: TLS may still have data that its user has not read.
 */
class Carrier extends Duplex {
  readonly #socket: LenientSocket;

  constructor(socket: LenientSocket) {
    super({ autoDestroy: false });
    this.#socket = socket;
    // TLS decides when the connection ends.
    socket.allowHalfOpen = true;
    socket.on('data', (chunk) => {
      if (!this.push(chunk)) socket.pause();
    });
    socket.once('end', () => this.push(null));
    socket.once('error', (error) => this.destroy(error));
    socket.once('close', () => {
      if (!socket.readableEnded) this.destroy();
    });
  }

  override _read(): void {
    this.#socket.resume();
  }

  override _write(chunk: Buffer, encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.#socket.write(chunk, encoding, () => done());
  }

  override _final(done: (error?: Error | null) => void): void {
    this.#socket.end(() => done());
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#socket.destroy();
    done(error);
  }
}
