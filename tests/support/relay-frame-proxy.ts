import { once } from 'node:events';
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { WebSocket, WebSocketServer } from 'ws';

/** A frame in transit, its index on its connection and direction, and the index of the connection in its environment. */
export interface PassingFrame {
  readonly environmentId: string;
  readonly towards: 'relay' | 'end';
  readonly index: number;
  readonly connection: number;
  readonly bytes: Buffer;
  /** Earlier frames on this connection and direction. */
  readonly earlier: readonly Buffer[];
}

/**
 * What happens to a frame: `cut` closes the connection instead of forwarding it. `swap` forwards the next frame of its direction
 * first, if one arrives soon. A list replaces the frame.
 */
export type FrameAction = 'pass' | 'cut' | 'swap' | readonly Uint8Array[];

/** A proxy between executors or harnesses and a relay. It forwards registry calls. The test decides about frames. */
export class RelayFrameProxy {
  /** Decides about each frame. */
  decide: (frame: PassingFrame) => FrameAction = () => 'pass';
  /** Statuses of refused websockets. */
  readonly refusals: number[] = [];
  /** `http:` URLs of the relay nodes. New connections go to the first that answers. */
  targets: readonly string[] = [];
  readonly #server: Server;
  readonly #upgrades = new WebSocketServer({ noServer: true, perMessageDeflate: false });
  readonly #sockets = new Set<Duplex>();
  readonly #connections = new Map<string, number>();

  private constructor() {
    this.#server = createServer((asked, answer) => void this.#call(asked, answer));
    this.#server.on('connection', (socket: Socket) => {
      this.#sockets.add(socket);
      socket.once('close', () => this.#sockets.delete(socket));
    });
    this.#server.on('upgrade', (asked: IncomingMessage, socket: Duplex, head: Buffer) => {
      void this.#join(asked, socket, head);
    });
  }

  static async open(): Promise<RelayFrameProxy> {
    const proxy = new RelayFrameProxy();
    proxy.#server.listen(0, '127.0.0.1');
    await once(proxy.#server, 'listening');
    return proxy;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Destroys all connections. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  async close(): Promise<void> {
    const closed = once(this.#server, 'close');
    this.#server.close();
    this.cut();
    await closed;
  }

  async #call(asked: IncomingMessage, answer: ServerResponse): Promise<void> {
    const body = Buffer.concat(await asked.toArray());
    for (const target of this.targets) {
      const { method, headers } = asked;
      const call = request(`${target}${asked.url}`, { method, headers, agent: false });
      call.end(body);
      const [response] = await once(call, 'response').catch(() => []);
      if (response === undefined) continue;
      answer.writeHead(response.statusCode, response.headers);
      response.pipe(answer);
      return;
    }
    answer.destroy();
  }

  async #join(asked: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> {
    socket.on('error', () => {});
    for (const target of this.targets) {
      const far = new WebSocket(`${target.replace('http', 'ws')}${asked.url}`, { perMessageDeflate: false });
      const status = await new Promise<number>((resolve) => {
        far.once('open', () => resolve(101));
        far.once('error', () => resolve(0));
        far.once('unexpected-response', (_request, response) => resolve(response.statusCode ?? 0));
      });
      if (status === 0) continue;
      far.on('error', () => {});
      if (status === 101) {
        far.pause();
        this.#upgrades.handleUpgrade(asked, socket, head, (near) =>
          this.#connect(asked.url ?? '', near, far),
        );
      } else {
        far.terminate();
        this.refusals.push(status);
        socket.end(`HTTP/1.1 ${status} Refused\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`);
      }
      return;
    }
    socket.destroy();
  }

  #connect(url: string, near: WebSocket, far: WebSocket): void {
    const environmentId = new URL(url, this.url).pathname.split('/').at(-1) ?? '';
    const connection = this.#connections.get(environmentId) ?? 0;
    this.#connections.set(environmentId, connection + 1);
    const cut = () => {
      near.terminate();
      far.terminate();
    };
    for (const socket of [near, far]) {
      socket.on('error', () => {});
      socket.on('close', cut);
    }
    const lane = (towards: PassingFrame['towards'], from: WebSocket, to: WebSocket) => {
      const earlier: Buffer[] = [];
      let held: Buffer | null = null;
      const send = (bytes: Uint8Array) => {
        if (to.readyState === WebSocket.OPEN) to.send(bytes);
      };
      const release = () => {
        if (held !== null) send(held);
        held = null;
      };
      from.on('message', (data) => {
        const bytes = data as Buffer;
        const frame = { environmentId, towards, index: earlier.length, connection, bytes, earlier };
        const action = from.readyState === WebSocket.OPEN ? this.decide(frame) : [];
        earlier.push(bytes);
        if (action === 'cut') return cut();
        if (action === 'swap') {
          release();
          held = bytes;
          setTimeout(release, SWAP_WAIT_MS);
          return;
        }
        for (const each of action === 'pass' ? [bytes] : action) send(each);
        release();
      });
    };
    lane('relay', near, far);
    lane('end', far, near);
    far.resume();
  }
}

/** Time that a frame waits for the one to swap with. */
const SWAP_WAIT_MS = 30;
