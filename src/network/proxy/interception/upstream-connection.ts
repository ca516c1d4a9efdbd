import type { Socket } from 'node:net';
import { connect, type SecureContext } from 'node:tls';
import { IntactConnections, outliveFailedWrites } from '../../failed-writes.ts';
import type { Host } from '../host.ts';
import { TLS_HANDSHAKE_MS } from './limits.ts';

/** An agent with one connection, for one request after another. */
export class SoleConnection extends IntactConnections {
  #socket: Socket | null;

  constructor(socket: Socket) {
    super({ keepAlive: true, maxSockets: 1 });
    this.#socket = socket;
  }

  override createConnection(): Socket {
    const socket = this.#socket;
    this.#socket = null;
    if (socket === null || socket.destroyed) throw new Error('the web server has ended the connection');
    return socket;
  }
}

/** Speaks TLS on a connection. Rejects, and ends it, when the other side cannot prove to be the host. */
export function secureTo(host: Host, socket: Socket, trust: SecureContext): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const secured = connect({
      socket,
      ...(host.address === null ? { servername: host.name } : { host: host.address }),
      secureContext: trust,
      // Whatever the server's environment says about it.
      rejectUnauthorized: true,
      ALPNProtocols: ['http/1.1'],
    });
    const timer = setTimeout(
      () => secured.destroy(new Error('the handshake takes too long')),
      TLS_HANDSHAKE_MS,
    );
    secured.once('secureConnect', () => {
      clearTimeout(timer);
      secured.off('error', fail);
      // Seen by whoever uses it.
      secured.on('error', () => {});
      outliveFailedWrites(secured);
      resolve(secured);
    });
    const fail = (error: Error) => {
      clearTimeout(timer);
      secured.destroy();
      socket.destroy();
      reject(error);
    };
    secured.on('error', fail);
    secured.once('close', () => fail(new Error('the web server has ended the connection')));
  });
}
