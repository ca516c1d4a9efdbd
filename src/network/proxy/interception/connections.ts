import type { Socket } from 'node:net';
import type { SecureContext } from 'node:tls';
import { type LenientSocket, ReliableAgent } from '../../failed-writes.ts';
import { connectSecurely } from '../../tls-over-socket.ts';
import type { AccessRequest } from '../admission.ts';
import type { Host } from '../host.ts';
import { IDLE_TIMEOUT_MS, TLS_HANDSHAKE_MS } from '../limits.ts';
import type { Scheme } from '../masking/destination.ts';

/** An agent with one connection, for one request after another. */
class SoleConnection extends ReliableAgent {
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

/** Starts TLS on a connection. Rejects and closes it when the other side's certificate does not prove the host. */
export function secureTo(host: Host, socket: LenientSocket, trust: SecureContext): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const secured = connectSecurely(socket, {
      ...(host.address === null ? { servername: host.name } : { host: host.address }),
      secureContext: trust,
      // Overrides NODE_TLS_REJECT_UNAUTHORIZED.
      rejectUnauthorized: true,
      ALPNProtocols: ['http/1.1'],
    });
    const timer = setTimeout(
      () => secured.destroy(new Error('the TLS handshake timed out')),
      TLS_HANDSHAKE_MS,
    );
    secured.once('secureConnect', () => {
      clearTimeout(timer);
      secured.off('error', fail);
      // The user of the socket sees its errors.
      secured.on('error', () => {});
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

/**
 * Peeks at the first byte that the client sends. Null when the other side speaks first or one of them disconnects: then the client
 * does not start the protocol. When neither sends anything both are closed after the idle timeout.
 */
export function firstByte(client: Socket, upstream: Socket): Promise<number | null> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => {
      for (const socket of [client, upstream]) socket.destroy();
    }, IDLE_TIMEOUT_MS);
    const settle = (byte: number | null) => {
      clearTimeout(timer);
      client.off('readable', onClient);
      upstream.off('readable', onUpstream);
      for (const socket of [client, upstream]) socket.off('close', onUpstream);
      resolve(byte);
    };
    const onClient = () => {
      const bytes: Buffer | null = client.read();
      if (bytes !== null) client.unshift(bytes);
      settle(bytes?.[0] ?? null);
    };
    const onUpstream = () => settle(null);
    client.on('readable', onClient);
    upstream.on('readable', onUpstream);
    for (const socket of [client, upstream]) socket.on('close', onUpstream);
    if (client.destroyed || upstream.destroyed) settle(null);
  });
}

/** The connection of a program and that to its host, which end together. */
export class InterceptedConnection {
  readonly access: AccessRequest;
  readonly scheme: Scheme;
  readonly agent: Promise<SoleConnection>;
  /** The host's address. */
  readonly address: string | undefined;
  readonly #upstream: Promise<Socket>;
  #busy = 0;
  #ended = false;
  #onIdleEnd = () => {};

  constructor(access: AccessRequest, scheme: Scheme, address: string | undefined, upstream: Promise<Socket>) {
    this.access = access;
    this.scheme = scheme;
    this.address = address;
    this.#upstream = upstream;
    this.agent = upstream.then((socket) => {
      socket.once('close', () => {
        this.#ended = true;
        if (this.#busy === 0) this.#onIdleEnd();
      });
      return new SoleConnection(socket);
    });
    this.agent.catch(() => {});
  }

  /** Calls back when the host disconnects between requests: no further request could be answered. */
  onIdleEnd(listener: () => void): void {
    this.#onIdleEnd = listener;
  }

  /** Marks the start of a request; the returned function marks its end. */
  begin(): () => void {
    this.#busy++;
    return () => {
      this.#busy--;
      if (this.#busy === 0 && this.#ended) this.#onIdleEnd();
    };
  }

  end(): void {
    this.#upstream.then((socket) => socket.destroy()).catch(() => {});
  }
}
