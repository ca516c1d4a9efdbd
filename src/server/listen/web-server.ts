import { once } from 'node:events';
import {
  createServer,
  type IncomingMessage,
  type Server,
  type ServerOptions,
  type ServerResponse,
} from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Logger } from '../../observability/log.ts';
import { CHECKS_PER_HANDSHAKE } from '../limits.ts';
import { type ConnectionLimits, ConnectionPlaces, type Peer } from './connection-places.ts';
import type { SocketAddress, UnixAddress } from './listen-url.ts';
import type { TlsFiles, TlsServer } from './tls.ts';

/** Where to listen, and how much is put up with from who comes. */
export interface WebServerOptions extends ConnectionLimits {
  readonly address: SocketAddress | UnixAddress;
  /** Null without TLS. */
  readonly tls: TlsFiles | null;
  /** How long a connection may take to send its request. */
  readonly requestTimeoutMs: number;
  readonly log: Logger;
}

/** What is done with who comes. */
export interface WebHandlers {
  request(request: IncomingMessage, response: ServerResponse): void;
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void;
  /** Sends away the connection that has been no websocket for longest, because there are too many. */
  crowded(leaving: Duplex): void;
}

/** A web server, with or without TLS, that keeps count of its connections. */
export class WebServer {
  readonly places: ConnectionPlaces;
  readonly #options: WebServerOptions;
  readonly #handlers: WebHandlers;
  #server: Server | null = null;
  #tls: TlsServer | null = null;

  constructor(options: WebServerOptions, handlers: WebHandlers) {
    this.#options = options;
    this.#handlers = handlers;
    this.places = new ConnectionPlaces(options);
  }

  /** Binds the address; resolves with it, or with null for a socket in the file system. Rejects as the system does. */
  async listen(): Promise<AddressInfo | null> {
    const server = await this.#createServer();
    this.#server = server;
    server.on('request', (request, response) => this.#handlers.request(request, response));
    server.on('upgrade', (request, socket, head) => this.#handlers.upgrade(request, socket, head));
    server.on('connection', (socket) => this.#arrived(socket));
    const bound = await bind(server, this.#options.address);
    // The system may refuse a connection, for want of descriptors for instance; the next one may succeed.
    server.on('error', ({ message }) => this.#options.log.warn('a connection was lost', { reason: message }));
    return bound;
  }

  /** Reads certificates again; without TLS there is nothing to read. Throws StartError and goes on with the old ones. */
  async reload(): Promise<void> {
    await this.#tls?.reload();
  }

  /** Frees the address and cuts what is left. */
  async close(): Promise<void> {
    const server = this.#server;
    if (server === null) return;
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    server.closeAllConnections();
    for (const socket of [...this.places.pending, ...this.places.admitted]) socket.destroy();
    await closed;
  }

  async #createServer(): Promise<Server> {
    const { tls, requestTimeoutMs } = this.#options;
    const options: ServerOptions = {
      headersTimeout: requestTimeoutMs,
      requestTimeout: requestTimeoutMs,
      connectionsCheckingInterval: Math.ceil(requestTimeoutMs / CHECKS_PER_HANDSHAKE),
    };
    if (tls === null) return createServer(options);
    const { createTlsServer } = await import('./tls.ts');
    this.#tls = await createTlsServer(tls, options, requestTimeoutMs);
    return this.#tls.server;
  }

  #arrived(socket: Socket): void {
    socket.setNoDelay(true);
    const leaving = this.places.arrived(socket);
    if (leaving !== null) this.#handlers.crowded(leaving);
  }
}

/** Where a connection comes from; null for a socket in the file system. */
export function addressOf(socket: Peer): string | null {
  return socket.remoteAddress ?? null;
}

async function bind(server: Server, address: SocketAddress | UnixAddress): Promise<AddressInfo | null> {
  if (address.kind === 'unix') {
    const { listenOnUnixSocket } = await import('./unix-socket.ts');
    await listenOnUnixSocket(server, address.path);
    return null;
  }
  const listening = once(server, 'listening');
  server.listen(address.port, address.host);
  await listening;
  return server.address() as AddressInfo;
}
