import { createServer, type IncomingMessage, type Server, STATUS_CODES } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import type { Transport } from '../transport/transport.ts';
import { type WebSocketOptions, WebSocketUpgrader } from '../transport/websocket.ts';
import { answerHttp, encodeAnswer, type ListenerState } from './http-routes.ts';
import { HEADERS_TIMEOUT_MS } from './limits.ts';

/** Where to listen and what to do with who comes. */
export interface ListenerOptions extends WebSocketOptions {
  readonly host: string;
  readonly port: number;
  readonly maxConnections: number;
  accepted(transport: Transport): void;
}

/** The HTTP side of a server: health probes, and websocket upgrades on `/`. */
export class Listener {
  readonly #server: Server;
  readonly #upgrader: WebSocketUpgrader;
  readonly #options: ListenerOptions;
  readonly #sockets = new Set<Duplex>();
  #draining = false;

  constructor(options: ListenerOptions) {
    this.#options = options;
    this.#upgrader = new WebSocketUpgrader(options);
    this.#server = createServer({ headersTimeout: HEADERS_TIMEOUT_MS, requestTimeout: HEADERS_TIMEOUT_MS });
    this.#server.on('request', (request, response) => {
      const answer = answerHttp(request, false, this.#state());
      response.writeHead(answer?.status ?? 404, answer?.headers);
      response.end(request.method === 'HEAD' ? '' : answer?.body);
    });
    this.#server.on('upgrade', (request, socket, head) => this.#upgrade(request, socket, head));
    this.#server.on('connection', (socket) => socket.setNoDelay(true));
  }

  /** Binds the address; resolves with the URL that reaches it. */
  async listen(): Promise<string> {
    const { host, port } = this.#options;
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject);
      this.#server.listen(port, host, () => {
        this.#server.off('error', reject);
        resolve();
      });
    });
    const address = this.#server.address() as AddressInfo;
    const shown = address.family === 'IPv6' ? `[${address.address}]` : address.address;
    return `ws://${shown}:${address.port}`;
  }

  /** Refuses new connections and reports not ready; probes are still answered. */
  drain(): void {
    this.#draining = true;
  }

  /** Frees the port and cuts what is left. */
  async close(): Promise<void> {
    const closed = new Promise<void>((resolve) => this.#server.close(() => resolve()));
    this.#server.closeAllConnections();
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  #state(): ListenerState {
    return { draining: this.#draining, full: this.#sockets.size >= this.#options.maxConnections };
  }

  #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    socket.on('error', () => socket.destroy());
    const refusal = answerHttp(request, true, this.#state());
    if (refusal !== null) {
      // Nobody else watches this socket: one that the peer keeps open would stay for ever and hold up `close`.
      socket.end(encodeAnswer(refusal, STATUS_CODES[refusal.status] ?? ''), () => socket.destroy());
      return;
    }
    this.#sockets.add(socket);
    socket.once('close', () => this.#sockets.delete(socket));
    this.#upgrader.upgrade(request, socket, head, this.#options.accepted);
  }
}
