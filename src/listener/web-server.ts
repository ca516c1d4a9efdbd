import { once } from 'node:events';
import {
  createServer as createHttpServer,
  type Server as HttpServer,
  type IncomingMessage,
  type ServerResponse,
} from 'node:http';
import {
  type AddressInfo,
  createServer,
  isIPv6,
  type Server,
  type Socket,
  SocketAddress as SystemAddress,
} from 'node:net';
import type { Duplex } from 'node:stream';
import type { Logger } from '../observability/log.ts';
import { type ConnectionLimits, ConnectionSlots, type Peer } from './connection-slots.ts';
import { hostInUrl, type SocketAddress, type UnixAddress } from './listen-url.ts';
import { RequestCredits, RequestStream } from './request-stream.ts';
import { StartError } from './start-error.ts';
import type { TlsFiles, TlsServer } from './tls.ts';

/** Where a web server listens, and its limits. */
interface WebServerOptions extends ConnectionLimits {
  readonly address: SocketAddress | UnixAddress;
  /** A listening socket for the address that this process has inherited; null when it binds the address itself. */
  readonly descriptor?: number | null;
  /** Whether clients need a token, so that other users may open an inherited Unix socket. */
  readonly requiresToken?: boolean;
  /** Null without TLS. */
  readonly tls: TlsFiles | null;
  /** How long a connection may take to send its request. */
  readonly requestTimeoutMs: number;
  readonly log: Logger;
}

/** What the owner of a web server does with requests and connections. */
interface WebHandlers {
  request(request: IncomingMessage, response: ServerResponse): void;
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void;
  /** Closes the oldest connection that is not a websocket yet, because all slots are taken. */
  evict(socket: Duplex): void;
}

/** An HTTP or HTTPS server that counts its connections, and lets them take turns. */
export class WebServer {
  readonly slots: ConnectionSlots;
  readonly #options: WebServerOptions;
  readonly #handlers: WebHandlers;
  /** Parses requests. It does not listen: {@link #server} does, and each of its connections passes a {@link RequestStream}. */
  readonly #http: HttpServer;
  readonly #credits = new RequestCredits();
  #server: Server | null = null;
  #tls: TlsServer | null = null;

  constructor(options: WebServerOptions, handlers: WebHandlers) {
    this.#options = options;
    this.#handlers = handlers;
    this.slots = new ConnectionSlots(options);
    this.#http = createHttpServer();
    this.#http.on('request', (request, response) => {
      (request.socket as unknown as RequestStream).requestBegun(request, response);
      handlers.request(request, response);
    });
    this.#http.on('upgrade', (request, stream, head) => {
      const { socket, unread } = (stream as RequestStream).release();
      request.socket = socket;
      handlers.upgrade(request, socket, unread.length === 0 ? head : Buffer.concat([head, unread]));
    });
  }

  /** Binds the address. @returns the bound address, or null for a Unix socket. Rejects with the system's error. */
  async listen(): Promise<AddressInfo | null> {
    const server = await this.#createServer();
    this.#server = server;
    server.on('connection', (socket) => this.#connected(socket));
    server.on(this.#tls === null ? 'connection' : 'secureConnection', (socket: Socket) => {
      const { requestTimeoutMs } = this.#options;
      this.#http.emit('connection', new RequestStream(socket, requestTimeoutMs, this.#credits.of(socket)));
    });
    const { address, descriptor = null, requiresToken = false } = this.#options;
    const bound = await (descriptor === null
      ? bind(server, address)
      : listenOnDescriptor(server, descriptor, address, requiresToken));
    // The system may fail to accept a connection, for example without free descriptors. Later ones may succeed.
    server.on('error', ({ message }) =>
      this.#options.log.warn('failed to accept a connection', { reason: message }),
    );
    return bound;
  }

  /** Reads the certificates again; does nothing without TLS. Throws StartError and keeps the previous certificates. */
  async reload(): Promise<void> {
    await this.#tls?.reload();
  }

  /** Frees the address and closes the remaining connections. */
  async close(): Promise<void> {
    const server = this.#server;
    if (server === null) return;
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    for (const socket of [...this.slots.pending, ...this.slots.admitted]) socket.destroy();
    await closed;
  }

  async #createServer(): Promise<Server> {
    const { tls, requestTimeoutMs } = this.#options;
    if (tls === null) return createServer({ allowHalfOpen: true });
    const { createTlsServer } = await import('./tls.ts');
    this.#tls = await createTlsServer(tls, requestTimeoutMs);
    return this.#tls.server;
  }

  #connected(socket: Socket): void {
    socket.setNoDelay(true);
    const evicted = this.slots.addPending(socket);
    if (evicted !== null) this.#handlers.evict(evicted);
  }
}

/** @returns the remote address of a connection; null for a Unix socket. */
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

/** Listens on an inherited socket. Rejects with StartError when it belongs to another address, or serves other users. */
async function listenOnDescriptor(
  server: Server,
  descriptor: number,
  address: SocketAddress | UnixAddress,
  requiresToken: boolean,
): Promise<AddressInfo | null> {
  if (address.kind === 'unix') {
    const { checkPassedUnixSocket } = await import('./passed-unix-socket.ts');
    checkPassedUnixSocket(descriptor, address.path, requiresToken);
  }
  const listening = once(server, 'listening');
  server.listen({ fd: descriptor });
  await listening;
  if (address.kind === 'unix') return null;
  // Node reports no address for a Unix socket that it has not bound.
  const bound = server.address() as AddressInfo | null;
  const isExpected =
    bound !== null && sameHost(bound.address, address.host) && [0, bound.port].includes(address.port);
  if (isExpected) return bound;
  server.close();
  const passed = bound === null ? 'a Unix socket' : `${hostInUrl(bound.address)}:${bound.port}`;
  throw new StartError(
    `the service manager passed ${passed}, but --listen names ${hostInUrl(address.host)}:${address.port}; use the same address in the socket unit and in --listen`,
  );
}

/** Compares IP addresses, of which IPv6 has several spellings. */
function sameHost(first: string, second: string): boolean {
  const [one, other] = [first, second].map((address) =>
    isIPv6(address) ? new SystemAddress({ address, family: 'ipv6' }).address : address,
  );
  return one === other;
}
