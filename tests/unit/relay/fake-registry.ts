import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { onTestFinished } from 'vitest';
import { type FrameSocket, FrameSocketUpgrader } from '../../../src/transport/frame-socket.ts';

/** A request to the registry. */
export interface Asked {
  /** Last segment of the path. */
  readonly action: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  // biome-ignore lint/suspicious/noExplicitAny: requests are looked into as they come.
  readonly body: any;
}

/** A status and body, a closed connection, or no answer. */
export type FakeAnswer = { readonly status?: number; readonly body: unknown } | 'cut' | 'silence';

/** A registry whose answers the test sets, and a rendezvous that accepts websockets and leaves them to the test. */
export class FakeRegistry {
  readonly asked: Asked[] = [];
  readonly upgrades: IncomingHttpHeaders[] = [];
  readonly sockets: FrameSocket[] = [];
  /** Statuses that refuse the next websockets. */
  readonly refusals: number[] = [];
  answer: (asked: Asked) => FakeAnswer = () => ({ status: 500, body: '' });
  /** Returns the status that refuses a websocket, or null to accept it. */
  refuse: (request: IncomingMessage) => number | null = () => this.refusals.shift() ?? null;
  /** Receives every websocket. */
  accepted: (socket: FrameSocket, request: IncomingMessage) => void = () => {};
  readonly #server: Server;
  readonly #connections = new Set<Socket>();
  readonly #upgraded: Duplex[] = [];
  readonly #upgrader = new FrameSocketUpgrader({
    maxMessageBytes: 262_144,
    maxUnfinishedBytes: 64 * 262_144,
    pingIntervalMs: 0,
    peerSilenceTimeoutMs: 0,
  });

  private constructor() {
    this.#server = createServer((request, response) => {
      const parts: Buffer[] = [];
      request.on('data', (part: Buffer) => parts.push(part));
      request.on('end', () => {
        const path = request.url!;
        const body: unknown = JSON.parse(Buffer.concat(parts).toString());
        const asked = { action: path.split('/').at(-1)!, path, headers: request.headers, body };
        this.asked.push(asked);
        const reply = this.answer(asked);
        if (reply === 'cut') request.socket.destroy();
        if (typeof reply === 'string') return;
        const text = typeof reply.body === 'string' ? reply.body : JSON.stringify(reply.body);
        response.writeHead(reply.status ?? 200, { location: '/elsewhere' }).end(text);
      });
    });
    this.#server.on('connection', (socket) => {
      this.#connections.add(socket);
      socket.on('close', () => this.#connections.delete(socket));
    });
    this.#server.on('upgrade', (request, socket, head) => {
      this.upgrades.push(request.headers);
      const refusal = this.refuse(request);
      if (refusal !== null) {
        socket.end(`HTTP/1.1 ${refusal} No\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`);
        return;
      }
      this.#upgraded.push(socket);
      this.#upgrader.upgrade(request, socket, head, (accepted) => {
        this.sockets.push(accepted);
        this.accepted(accepted, request);
      });
    });
  }

  static async open(): Promise<FakeRegistry> {
    const registry = new FakeRegistry();
    registry.#server.listen(0, '127.0.0.1');
    await once(registry.#server, 'listening');
    onTestFinished(async () => {
      registry.#server.close();
      for (const socket of registry.#connections) socket.destroy();
      await once(registry.#server, 'close');
    });
    return registry;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** Returns a valid answer to a registration. */
  registration(registrationId = 'registration-1', more: object = {}): FakeAnswer {
    const url = `${this.url.replace('http', 'ws')}/ws?sig=secret`;
    const body = {
      environment_id: 'env-1',
      url,
      security_profile: 'noise_hybrid_ik_v1',
      executor_registration_id: registrationId,
      ...more,
    };
    return { body };
  }

  /** Number of open connections. */
  get connectionCount(): number {
    return this.#connections.size;
  }

  /** Destroys all websockets. */
  cutSockets(): void {
    for (const socket of this.#upgraded.splice(0)) socket.destroy();
  }

  actions(): string[] {
    return this.asked.map(({ action }) => action);
  }
}
