import { once } from 'node:events';
import {
  createServer,
  type IncomingMessage,
  type Server,
  type ServerOptions,
  type ServerResponse,
  STATUS_CODES,
} from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Logger } from '../observability/log.ts';
import type { Transport } from '../transport/transport.ts';
import { type WebSocketOptions, WebSocketUpgrader } from '../transport/websocket.ts';
import { type ConnectionLimits, ConnectionPlaces } from './connection-places.ts';
import { answerHttp, encodeAnswer, type HttpAnswer, type ListenerState, unavailable } from './http-routes.ts';
import { HANDSHAKE_CHECK_MS } from './limits.ts';
import type { SocketAddress, UnixAddress } from './listen-url.ts';
import type { TlsFiles, TlsServer } from './tls.ts';

/** Where to listen and what to do with who comes. */
export interface ListenerOptions extends WebSocketOptions, ConnectionLimits {
  readonly address: SocketAddress | UnixAddress;
  /** Null on a listener without TLS. */
  readonly tls: TlsFiles | null;
  /** How long a connection may take to become a websocket. */
  readonly handshakeTimeoutMs: number;
  readonly log: Logger;
  accepted(transport: Transport): void;
}

/** The HTTP side of a server: health probes, and websocket upgrades on `/`. */
export class Listener {
  readonly #upgrader: WebSocketUpgrader;
  readonly #options: ListenerOptions;
  readonly #places: ConnectionPlaces;
  #server: Server | null = null;
  #tls: TlsServer | null = null;
  #draining = false;

  constructor(options: ListenerOptions) {
    this.#options = options;
    this.#upgrader = new WebSocketUpgrader(options);
    this.#places = new ConnectionPlaces(options);
  }

  /** Binds the address; resolves with the URL that reaches it. */
  async listen(): Promise<string> {
    const server = await this.#createServer();
    this.#server = server;
    server.on('request', (request, response) => this.#answer(request, response));
    server.on('upgrade', (request, socket, head) => this.#upgrade(request, socket, head));
    server.on('connection', (socket) => this.#arrived(socket));
    const url = await bind(server, this.#options.address);
    // The system may refuse a connection, for want of descriptors for instance; the next one may succeed.
    server.on('error', ({ message }) => this.#options.log.warn('a connection was lost', { reason: message }));
    return url;
  }

  /** Refuses new connections and reports not ready; probes are still answered. */
  drain(): void {
    this.#draining = true;
  }

  /** Reads certificates again; a listener without TLS has nothing to read. Throws StartError and goes on with the old ones. */
  async reload(): Promise<void> {
    await this.#tls?.reload();
  }

  /** Frees the address and cuts what is left. */
  async close(): Promise<void> {
    const server = this.#server;
    if (server === null) return;
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    server.closeAllConnections();
    for (const socket of [...this.#places.pending, ...this.#places.admitted]) socket.destroy();
    await closed;
  }

  async #createServer(): Promise<Server> {
    const { tls, handshakeTimeoutMs } = this.#options;
    const options: ServerOptions = {
      headersTimeout: handshakeTimeoutMs,
      requestTimeout: handshakeTimeoutMs,
      connectionsCheckingInterval: Math.min(HANDSHAKE_CHECK_MS, handshakeTimeoutMs),
    };
    if (tls === null) return createServer(options);
    const { createTlsServer } = await import('./tls.ts');
    this.#tls = await createTlsServer(tls, options, handshakeTimeoutMs);
    return this.#tls.server;
  }

  #arrived(socket: Socket): void {
    socket.setNoDelay(true);
    const leaving = this.#places.arrived(socket);
    if (leaving === null) return;
    // Before TLS there is no language to say it in.
    if (this.#tls === null) end(leaving, unavailable(CROWDED));
    else leaving.destroy();
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const answer = answerHttp(request, false, this.#state(request.socket));
    response.writeHead(answer?.status ?? 404, answer?.headers);
    response.end(request.method === 'HEAD' ? '' : answer?.body);
  }

  #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    socket.on('error', () => socket.destroy());
    const refused = answerHttp(request, true, this.#state(socket));
    if (refused !== null) {
      end(socket, refused);
      return;
    }
    this.#places.admit(socket);
    this.#upgrader.upgrade(request, socket, head, this.#options.accepted);
  }

  #state(socket: Duplex): ListenerState {
    return { draining: this.#draining, obstacle: this.#places.obstacle(socket) };
  }
}

const CROWDED = 'too many connections have not become websockets yet; this was the oldest';

async function bind(server: Server, address: SocketAddress | UnixAddress): Promise<string> {
  if (address.kind === 'unix') {
    const { listenOnUnixSocket } = await import('./unix-socket.ts');
    await listenOnUnixSocket(server, address.path);
    return `unix://${address.path}`;
  }
  const listening = once(server, 'listening');
  server.listen(address.port, address.host);
  await listening;
  const bound = server.address() as AddressInfo;
  const host = bound.family === 'IPv6' ? `[${bound.address}]` : bound.address;
  return `${address.secure ? 'wss' : 'ws'}://${host}:${bound.port}`;
}

/** Nobody else watches a socket that HTTP has let go of: one that the peer keeps open would stay for ever and hold up `close`. */
function end(socket: Duplex, answer: HttpAnswer): void {
  socket.end(encodeAnswer(answer, STATUS_CODES[answer.status] ?? ''), () => socket.destroy());
}
