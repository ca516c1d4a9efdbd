import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Duplex } from 'node:stream';
import { WebServer } from '../listener/web-server.ts';
import type { Logger } from '../observability/log.ts';
import { WebSocketUpgrader } from '../transport/websocket.ts';
import { type Answer, endWithAnswer, fail, sendAnswer } from './answers.ts';
import type { Console } from './console.ts';
import {
  HANDSHAKE_TIMEOUT_MS,
  MAX_CONNECTIONS,
  MAX_HTTP_SOCKETS,
  MAX_MESSAGE_BYTES,
  MAX_UNFINISHED_BYTES,
  PEER_SILENCE_TIMEOUT_MS,
  PING_INTERVAL_MS,
} from './limits.ts';

const LOOPBACK = '127.0.0.1';

type ServedConsole = Pick<Console<unknown>, 'respond' | 'upgrade' | 'serves' | 'close'>;

/** Serves a console, and nothing else, on a port of the loopback interface. */
export class ConsoleServer {
  readonly #console: ServedConsole;
  readonly #upgrader = new WebSocketUpgrader({
    maxMessageBytes: MAX_MESSAGE_BYTES,
    maxUnfinishedBytes: MAX_UNFINISHED_BYTES,
    pingIntervalMs: PING_INTERVAL_MS,
    peerSilenceTimeoutMs: PEER_SILENCE_TIMEOUT_MS,
  });
  readonly #server: WebServer;

  /** Port 0 is any free one. */
  constructor(console: ServedConsole, port: number, log: Logger) {
    this.#console = console;
    this.#server = new WebServer(
      {
        address: { kind: 'websocket', secure: false, host: LOOPBACK, port },
        tls: null,
        requestTimeoutMs: HANDSHAKE_TIMEOUT_MS,
        maxConnections: MAX_CONNECTIONS,
        maxConnectionsPerAddress: MAX_CONNECTIONS,
        maxSockets: MAX_CONNECTIONS + MAX_HTTP_SOCKETS,
        log,
      },
      {
        request: (request, response) => this.#respond(request, response),
        upgrade: (request, socket, head) => this.#upgrade(request, socket, head),
        evict: (socket) => socket.destroy(),
      },
    );
  }

  /** Binds the port. Resolves to the origin, such as `http://127.0.0.1:4000`. Rejects with the system's error. */
  async listen(): Promise<string> {
    const bound = await this.#server.listen();
    return `http://${LOOPBACK}:${bound!.port}`;
  }

  /** Ends all sessions, frees the port and closes the connections. */
  async close(): Promise<void> {
    this.#console.close();
    await this.#server.close();
  }

  #respond(request: IncomingMessage, output: ServerResponse): void {
    const refusal = this.#refusalOf(request);
    if (refusal !== null) sendAnswer(request, output, refusal);
    else void this.#console.respond(request, output, request.headers.host);
  }

  #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    socket.on('error', () => socket.destroy());
    const refusal = this.#refusalOf(request);
    if (refusal !== null) {
      endWithAnswer(socket, refusal);
      return;
    }
    this.#console.upgrade(request, socket, head, {
      host: request.headers.host,
      unavailable: this.#server.slots.limitReached(socket),
      admit: () => this.#server.slots.admit(socket),
      upgrader: this.#upgrader,
    });
  }

  /**
   * A web page whose name leads to this machine sends that name as Host (DNS rebinding). The port is not checked: an ssh tunnel may lead
   * from another one.
   */
  #refusalOf({ headers, url = '/' }: IncomingMessage): Answer | null {
    if (!OWN_HOST.test(headers.host ?? '')) return MISDIRECTED;
    return this.#console.serves(url.replace(/\?.*/s, '')) ? null : NOT_FOUND;
  }
}

const OWN_HOST = /^(?:127\.0\.0\.1|localhost)(?::\d{1,5})?$/i;
const MISDIRECTED = fail(421, 'forbidden', 'this console answers to 127.0.0.1 and localhost only');
const NOT_FOUND = fail(404, 'notFound', 'the console is at /console/');
