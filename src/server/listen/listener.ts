import { type IncomingMessage, type ServerResponse, STATUS_CODES } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Console } from '../../console/console.ts';
import type { ConnectionLimits } from '../../listener/connection-slots.ts';
import { createHostCheck, type HostCheck } from '../../listener/host-check.ts';
import { encodeResponse, type HttpResponse, handshakeError } from '../../listener/http-response.ts';
import { hostInUrl, type SocketAddress, type UnixAddress } from '../../listener/listen-url.ts';
import { closeWithClient, refusalDelay } from '../../listener/refusal-delay.ts';
import { listenError } from '../../listener/start-error.ts';
import type { TlsFiles } from '../../listener/tls.ts';
import { addressOf, WebServer } from '../../listener/web-server.ts';
import type { Logger } from '../../observability/log.ts';
import type { Transport } from '../../transport/transport.ts';
import { type WebSocketServerOptions, WebSocketUpgrader } from '../../transport/websocket.ts';
import type { Gate, Refused } from '../auth/gate.ts';
import { anonymousPrincipal, type Principal } from '../auth/principal.ts';
import type { ServerMetrics } from '../records/server-metrics.ts';
import {
  answerHttp,
  answerMetrics,
  asksForMetrics,
  forbidden,
  hostOf,
  type ListenerState,
  misdirected,
  pathOf,
  unauthorized,
  unavailable,
} from './http-routes.ts';

/** The address of a listener, its limits and its callbacks. */
export interface ListenerOptions extends WebSocketServerOptions, ConnectionLimits {
  readonly address: SocketAddress | UnixAddress;
  /** A listening socket that this process has inherited; null when it binds the address itself. */
  readonly descriptor?: number | null;
  /** Null on a listener without TLS. */
  readonly tls: TlsFiles | null;
  /** How long a connection may take to become a websocket. */
  readonly handshakeTimeoutMs: number;
  /** Host names that are accepted besides loopback and the address itself, separated by commas. */
  readonly allowedHost: string;
  /** Checks tokens; null when clients need none. */
  readonly gate: Gate | null;
  readonly log: Logger;
  /** Null when metrics are not served. */
  readonly metrics?: ServerMetrics | null;
  /** Checks the token of scrapers; null when it is one of clients. */
  readonly metricsGate?: Gate | null;
  /** Null when the web console is off. */
  readonly webConsole?: Console<Principal> | null;
  /** Called for every rejected connection. */
  rejected?(status: number, reason: string, address: string | null, tokenId: string | null): void;
  accepted(transport: Transport, principal: Principal): void;
}

/** Accepts HTTP requests: health probes, metrics, and websocket upgrades on `/`. */
export class Listener {
  readonly #upgrader: WebSocketUpgrader;
  readonly #options: ListenerOptions;
  readonly #server: WebServer;
  readonly #hostCheck: HostCheck;
  #ready = true;
  #closing = false;

  constructor(options: ListenerOptions) {
    this.#options = options;
    this.#upgrader = new WebSocketUpgrader(options);
    this.#server = new WebServer(
      { ...options, requiresToken: options.gate !== null, requestTimeoutMs: options.handshakeTimeoutMs },
      {
        request: (request, response) => this.#respond(request, response),
        upgrade: (request, socket, head) => this.#upgrade(request, socket, head),
        evict: (socket) => this.#evict(socket),
      },
    );
    const { address, allowedHost } = options;
    // A web page cannot connect to a Unix socket.
    this.#hostCheck = address.kind === 'unix' ? () => true : createHostCheck(address.host, allowedHost);
  }

  /** Binds the address. Resolves to its URL. Rejects with StartError when the system refuses it. */
  async listen(): Promise<string> {
    const { address } = this.#options;
    try {
      return urlOf(address, await this.#server.listen());
    } catch (error) {
      throw listenError(error, urlOf(address, null));
    }
  }

  /** Reports not ready from now on, so that new clients go elsewhere. */
  setNotReady(): void {
    this.#ready = false;
  }

  /** Refuses new connections and reports not ready. Probes are still answered. */
  refuseConnections(): void {
    this.#ready = false;
    this.#closing = true;
  }

  /** Reloads the certificates; does nothing without TLS. Throws StartError and keeps the old ones. */
  async reload(): Promise<void> {
    await this.#server.reload();
  }

  /** Frees the address and closes the remaining connections. */
  async close(): Promise<void> {
    await this.#server.close();
  }

  #evict(socket: Duplex): void {
    // Before the TLS handshake there is no way to send a response.
    const canRespond = this.#options.tls === null;
    if (canRespond) end(socket, unavailable(EVICTED));
    // A peer that does not read the response would keep its descriptor, and the connection is no longer counted.
    if (!canRespond || socket.writableLength > 0) socket.destroy();
  }

  #respond(request: IncomingMessage, output: ServerResponse): void {
    const refused = this.#refusalOf(request);
    const console = refused === null ? this.#consoleFor(request) : null;
    if (console !== null) {
      void console.respond(request, output, hostOf(request));
      return;
    }
    const metrics = refused === null ? this.#metricsFor(request) : null;
    if (metrics !== null) void metrics.then((response) => send(request, output, response));
    else send(request, output, refused ?? answerHttp(request, false, this.#state(request.socket)));
  }

  #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    socket.on('error', () => socket.destroy());
    const misdirected = this.#refusalOf(request);
    const console = misdirected === null ? this.#consoleFor(request) : null;
    if (console !== null) {
      const { closing, limitReached } = this.#state(socket);
      console.upgrade(request, socket, head, {
        host: hostOf(request),
        unavailable: closing ? SHUTTING_DOWN : limitReached,
        admit: () => this.#server.slots.admit(socket),
        upgrader: this.#upgrader,
      });
      return;
    }
    // Some clients send an upgrade header with every request, for example for h2c.
    const metrics = misdirected === null ? this.#metricsFor(request) : null;
    if (metrics !== null) {
      closeWithClient(socket);
      void metrics.then((response) => end(socket, response));
      return;
    }
    const refused = misdirected ?? answerHttp(request, true, this.#state(socket));
    if (refused !== null) this.#reject(socket, refused);
    else if (this.#options.gate === null)
      this.#admit(request, socket, head, anonymousPrincipal(addressOf(socket)));
    else void this.#authenticate(this.#options.gate, request, socket, head);
  }

  /** The console, if it is on and the request is for it. */
  #consoleFor(request: IncomingMessage): Console<Principal> | null {
    const { webConsole = null } = this.#options;
    return webConsole?.serves(pathOf(request)) ? webConsole : null;
  }

  /** The response to a request for metrics; null for other requests and when metrics are not served. */
  #metricsFor(request: IncomingMessage): Promise<HttpResponse> | null {
    const { metrics = null, gate, metricsGate = null } = this.#options;
    if (metrics === null || !asksForMetrics(request)) return null;
    const { socket } = request;
    return answerMetrics(request, metrics, metricsGate ?? gate, {
      unauthorized: (refused) => this.#unauthorized(socket, refused),
      forbidden: (reason, principal) => this.#forbidden(socket, reason, principal),
    });
  }

  /** Until this is done, the socket counts as a connection that is not a websocket yet. */
  async #authenticate(gate: Gate, request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    const malformed = handshakeError(request);
    if (malformed !== null) {
      this.#reject(socket, malformed);
      return;
    }
    const admission = await gate(request.headers.authorization, addressOf(socket));
    if ('refusal' in admission) {
      closeWithClient(socket);
      end(socket, await this.#unauthorized(socket, admission));
      return;
    }
    const refused = answerHttp(request, true, this.#state(socket));
    if (refused !== null) this.#reject(socket, refused);
    else if (!socket.destroyed) this.#admit(request, socket, head, admission.principal);
  }

  /** The response to a client without a valid token. It is recorded before the delay. */
  async #unauthorized(socket: Duplex, refused: Refused): Promise<HttpResponse> {
    const { refusal: reason, delayMs } = refused;
    const tokenId = refused.tokenId ?? null;
    const address = addressOf(socket);
    // Refusals that are not delayed must not fill the log.
    const level = delayMs > 0 ? 'warn' : 'info';
    this.#options.log[level]('client refused', { reason, address, token: tokenId });
    const refusal = unauthorized(reason);
    this.#options.rejected?.(refusal.status, reason, address, tokenId);
    await refusalDelay(socket, delayMs);
    return refusal;
  }

  /** The response to a client whose token has other scopes. */
  #forbidden(socket: Duplex, reason: string, { tokenId }: Principal): HttpResponse {
    const address = addressOf(socket);
    this.#options.log.info('client refused', { reason, address, token: tokenId });
    const refusal = forbidden(reason);
    this.#options.rejected?.(refusal.status, reason, address, tokenId);
    return refusal;
  }

  #admit(request: IncomingMessage, socket: Duplex, head: Buffer, principal: Principal): void {
    this.#server.slots.admit(socket);
    this.#upgrader.upgrade(request, socket, head, (transport) =>
      this.#options.accepted(transport, principal),
    );
  }

  /** Records a rejected connection. A health probe with an upgrade header is answered, but not recorded as rejected. */
  #reject(socket: Duplex, response: HttpResponse): void {
    if (response.status >= 400) {
      this.#options.rejected?.(response.status, response.body.trim(), addressOf(socket), null);
    }
    end(socket, response);
  }

  #refusalOf(request: IncomingMessage): HttpResponse | null {
    const host = hostOf(request);
    return this.#hostCheck(host) ? null : misdirected(host ?? '');
  }

  #state(socket: Duplex): ListenerState {
    const limitReached = this.#server.slots.limitReached(socket);
    return { ready: this.#ready, closing: this.#closing, limitReached };
  }
}

const SHUTTING_DOWN = 'the server is shutting down';
const EVICTED = 'too many connections have not become websockets yet; this was the oldest';

/** The URL of a listener, before it is bound with the configured port. */
function urlOf(address: SocketAddress | UnixAddress, bound: AddressInfo | null): string {
  if (address.kind === 'unix') return `unix://${address.path}`;
  const port = bound?.port ?? address.port;
  return `${address.secure ? 'wss' : 'ws'}://${hostInUrl(bound?.address ?? address.host)}:${port}`;
}

function send(request: IncomingMessage, output: ServerResponse, response: HttpResponse | null): void {
  output.writeHead(response?.status ?? 404, response?.headers);
  output.end(request.method === 'HEAD' ? '' : response?.body);
}

/** Destroys the socket after the response. HTTP no longer watches it: a peer that keeps it open would block `close`. */
function end(socket: Duplex, response: HttpResponse): void {
  socket.end(encodeResponse(response, STATUS_CODES[response.status] ?? ''), () => socket.destroy());
}
