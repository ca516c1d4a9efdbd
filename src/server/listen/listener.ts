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
import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from '../../observability/log.ts';
import type { Transport } from '../../transport/transport.ts';
import { type WebSocketOptions, WebSocketUpgrader } from '../../transport/websocket.ts';
import type { Gate } from '../auth/gate.ts';
import { createHostCheck, type HostCheck } from '../auth/host-check.ts';
import { anonymousPrincipal, type Principal } from '../auth/principal.ts';
import { CHECKS_PER_HANDSHAKE } from '../limits.ts';
import { answerMetrics, asksForMetrics } from '../records/metrics-route.ts';
import type { ServerMetrics } from '../records/server-metrics.ts';
import { type ConnectionLimits, ConnectionPlaces, type Peer } from './connection-places.ts';
import {
  answerHttp,
  encodeAnswer,
  type HttpAnswer,
  handshakeProblem,
  type ListenerState,
  misdirected,
  unauthorized,
  unavailable,
} from './http-routes.ts';
import type { SocketAddress, UnixAddress } from './listen-url.ts';
import type { TlsFiles, TlsServer } from './tls.ts';

/** Where to listen and what to do with who comes. */
export interface ListenerOptions extends WebSocketOptions, ConnectionLimits {
  readonly address: SocketAddress | UnixAddress;
  /** Null on a listener without TLS. */
  readonly tls: TlsFiles | null;
  /** How long a connection may take to become a websocket. */
  readonly handshakeTimeoutMs: number;
  /** Names in Host headers that are answered beside loopback and the address itself, separated by commas. */
  readonly allowedHost: string;
  /** Asks for tokens; null lets everybody in. */
  readonly gate: Gate | null;
  readonly log: Logger;
  /** Null where no metrics are served. */
  readonly metrics?: ServerMetrics | null;
  /** Told of every client that is not let in. */
  turnedAway?(status: number, reason: string, address: string | null): void;
  accepted(transport: Transport, principal: Principal): void;
}

/** The HTTP side of a server: health probes, and websocket upgrades on `/`. */
export class Listener {
  readonly #upgrader: WebSocketUpgrader;
  readonly #options: ListenerOptions;
  readonly #places: ConnectionPlaces;
  readonly #answersTo: HostCheck;
  #server: Server | null = null;
  #tls: TlsServer | null = null;
  #draining = false;

  constructor(options: ListenerOptions) {
    this.#options = options;
    this.#upgrader = new WebSocketUpgrader(options);
    this.#places = new ConnectionPlaces(options);
    const { address, allowedHost } = options;
    // No web page reaches a socket in the file system.
    this.#answersTo = address.kind === 'unix' ? () => true : createHostCheck(address.host, allowedHost);
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
      connectionsCheckingInterval: Math.ceil(handshakeTimeoutMs / CHECKS_PER_HANDSHAKE),
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
    // One that leaves what it is sent unread would keep its descriptor, and nobody counts it any more.
    if (this.#tls !== null || leaving.writableLength > 0) leaving.destroy();
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const refused = this.#refusalOf(request);
    const { metrics = null, gate } = this.#options;
    if (refused === null && metrics !== null && asksForMetrics(request)) {
      void answerMetrics(request, metrics, gate, (reason, delayMs) =>
        this.#unauthorized(request.socket, reason, delayMs),
      ).then((answer) => send(request, response, answer));
    } else {
      send(request, response, refused ?? answerHttp(request, false, this.#state(request.socket)));
    }
  }

  #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    socket.on('error', () => socket.destroy());
    const refused = this.#refusalOf(request) ?? answerHttp(request, true, this.#state(socket));
    if (refused !== null) this.#turnAway(socket, refused);
    else if (this.#options.gate === null)
      this.#admit(request, socket, head, anonymousPrincipal(addressOf(socket)));
    else void this.#authenticate(this.#options.gate, request, socket, head);
  }

  /** While it takes its time, the socket is one of those that are not websockets yet. */
  async #authenticate(gate: Gate, request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    const malformed = handshakeProblem(request);
    if (malformed !== null) {
      this.#turnAway(socket, malformed);
      return;
    }
    const admission = await gate(request.headers.authorization, addressOf(socket));
    if ('refusal' in admission) {
      end(socket, await this.#unauthorized(socket, admission.refusal, admission.delayMs));
      return;
    }
    const obstacle = answerHttp(request, true, this.#state(socket));
    if (obstacle !== null) this.#turnAway(socket, obstacle);
    else if (!socket.destroyed) this.#admit(request, socket, head, admission.principal);
  }

  /** The answer to a client without a good token, on record before it has waited its time. */
  async #unauthorized(socket: Duplex, reason: string, delayMs: number): Promise<HttpAnswer> {
    const address = addressOf(socket);
    // What costs a client nothing must not fill the log.
    const level = delayMs > 0 ? 'warn' : 'info';
    this.#options.log[level]('a client was refused', { reason, address });
    const refusal = unauthorized(reason);
    this.#options.turnedAway?.(refusal.status, reason, address);
    await delay(delayMs, undefined, { ref: false });
    return refusal;
  }

  #admit(request: IncomingMessage, socket: Duplex, head: Buffer, principal: Principal): void {
    this.#places.admit(socket);
    this.#upgrader.upgrade(request, socket, head, (transport) =>
      this.#options.accepted(transport, principal),
    );
  }

  #turnAway(socket: Duplex, answer: HttpAnswer): void {
    this.#options.turnedAway?.(answer.status, answer.body.trim(), addressOf(socket));
    end(socket, answer);
  }

  #refusalOf({ headers }: IncomingMessage): HttpAnswer | null {
    return this.#answersTo(headers.host) ? null : misdirected(headers.host ?? '');
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

function addressOf(socket: Peer): string | null {
  return socket.remoteAddress ?? null;
}

function send(request: IncomingMessage, response: ServerResponse, answer: HttpAnswer | null): void {
  response.writeHead(answer?.status ?? 404, answer?.headers);
  response.end(request.method === 'HEAD' ? '' : answer?.body);
}

/** Nobody else watches a socket that HTTP has let go of: one that the peer keeps open would stay for ever and hold up `close`. */
function end(socket: Duplex, answer: HttpAnswer): void {
  socket.end(encodeAnswer(answer, STATUS_CODES[answer.status] ?? ''), () => socket.destroy());
}
