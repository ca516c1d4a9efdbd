import { once } from 'node:events';
import { createServer, type IncomingMessage, type RequestListener, type Server } from 'node:http';
import { createServer as createSecureServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { onTestFinished } from 'vitest';
import { type WebSocket, WebSocketServer } from 'ws';
import { TestClient } from '../../src/testing/index.ts';
import { WebSocketTransport } from '../../src/transport/websocket.ts';

/** A request as it arrived. */
export interface ReceivedRequest {
  readonly method: string;
  /** Path and query. */
  readonly target: string;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
}

/** Certificate and key of a server, as PEM texts. */
interface ServerTls {
  readonly cert: string;
  readonly key: string;
}

/** The registry of a direct transport, and the client that accepts the executor's websocket. */
export class DirectClient {
  readonly requests: ReceivedRequest[] = [];
  /** Answers to the next registrations, then the default answer. A body may depend on the request's headers. */
  readonly registrations: { readonly status: number; readonly body: unknown }[] = [];
  /** Statuses that refuse the next upgrades. */
  readonly refusals: number[] = [];
  readonly #accepted: WebSocket[] = [];
  readonly #upgrader = new WebSocketServer({ noServer: true });
  readonly #server: Server;
  readonly #isSecure: boolean;
  #connected: () => void = () => {};

  private constructor(tls: ServerTls | null) {
    this.#isSecure = tls !== null;
    const listener: RequestListener = (request, response) => {
      const parts: Buffer[] = [];
      request.on('data', (part: Buffer) => parts.push(part));
      request.on('end', () => {
        this.#record(request, Buffer.concat(parts).toString());
        const { status, body: given } = this.registrations.shift() ?? {
          status: 200,
          body: this.registration(),
        };
        const body: unknown = typeof given === 'function' ? given(request.headers) : given;
        response.writeHead(status).end(typeof body === 'string' ? body : JSON.stringify(body));
      });
    };
    this.#server = tls === null ? createServer(listener) : createSecureServer(tls, listener);
    this.#server.on('upgrade', (request, socket, head) => this.#upgrade(request, socket, head));
  }

  /** Listens on a free port of 127.0.0.1, with TLS if a certificate is given. */
  static async open(tls: ServerTls | null = null): Promise<DirectClient> {
    const client = new DirectClient(tls);
    client.#server.listen(0, '127.0.0.1');
    await once(client.#server, 'listening');
    onTestFinished(async () => {
      for (const socket of client.#upgrader.clients) socket.terminate();
      client.#server.close();
      client.#server.closeAllConnections();
      await once(client.#server, 'close');
    });
    return client;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get host(): string {
    return `127.0.0.1:${this.port}`;
  }

  /** The answer to a registration. */
  registration(changes: Readonly<Record<string, unknown>> = {}): Readonly<Record<string, unknown>> {
    return {
      environment_id: 'env-1',
      transport: 'direct_jsonrpc_v1',
      registration_id: 'registration-1',
      url: `${this.#isSecure ? 'wss' : 'ws'}://${this.host}/direct/ws?b=2&a=1%20x&sig=a/b`,
      ...changes,
    };
  }

  /** Method and path of each request so far. */
  log(): string[] {
    return this.requests.map(({ method, target }) => `${method} ${target.split('?')[0]}`);
  }

  /** The next connection of the executor, as the client of its server. */
  async connection(): Promise<TestClient> {
    while (this.#accepted.length === 0) {
      await new Promise<void>((resolve) => {
        this.#connected = resolve;
      });
    }
    const options = { maxMessageBytes: 0, pingIntervalMs: 0, peerSilenceTimeoutMs: 0 };
    return new TestClient(new WebSocketTransport(this.#accepted.shift()!, options));
  }

  #record(request: IncomingMessage, body: string): void {
    const { method = '', url = '', headers } = request;
    this.requests.push({ method, target: url, headers, body });
  }

  #upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    this.#record(request, '');
    const status = this.refusals.shift();
    if (status !== undefined) {
      socket.end(`HTTP/1.1 ${status} No\r\nlocation: /x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n`);
      return;
    }
    this.#upgrader.handleUpgrade(request, socket, head, (ws) => {
      this.#accepted.push(ws);
      this.#connected();
    });
  }
}
