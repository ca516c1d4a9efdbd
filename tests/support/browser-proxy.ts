import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import type { Duplex } from 'node:stream';

/** An HTTP proxy between a browser and servers of this machine, so that a test can cut the line. It refuses other hosts. */
export class BrowserProxy {
  readonly #server = createServer((incoming, answer) => this.#forward(incoming, answer));
  readonly #sockets = new Set<Duplex>();
  #isCut = false;

  static async start(): Promise<BrowserProxy> {
    const proxy = new BrowserProxy();
    const server = proxy.#server;
    server.on('connection', (socket) => {
      proxy.#sockets.add(socket);
      socket.on('error', () => {});
      socket.once('close', () => proxy.#sockets.delete(socket));
      if (proxy.#isCut) socket.destroy();
    });
    server.on('connect', (incoming, socket) => proxy.#tunnel(incoming, socket));
    await new Promise<void>((resolve) => {
      server.listen(0, '127.0.0.1', resolve);
    });
    return proxy;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Ends all connections and refuses new ones. */
  cut(): void {
    this.#isCut = true;
    for (const socket of this.#sockets) socket.destroy();
  }

  /** Passes nothing on from the browsers that are connected now, like a line that has died without a sign. */
  stall(): void {
    for (const socket of this.#sockets) socket.pause();
  }

  restore(): void {
    this.#isCut = false;
  }

  async close(): Promise<void> {
    this.cut();
    await new Promise((resolve) => {
      this.#server.close(resolve);
    });
  }

  #forward(incoming: IncomingMessage, answer: ServerResponse): void {
    const { method, headers } = incoming;
    if (!isLoopback(new URL(incoming.url!).hostname)) {
      answer.writeHead(403).end();
      return;
    }
    const sent = request(incoming.url!, { method: method!, headers, agent: false }, (response) => {
      answer.writeHead(response.statusCode!, response.headers);
      response.pipe(answer);
    });
    sent.once('error', () => answer.destroy());
    incoming.pipe(sent);
  }

  #tunnel({ url }: IncomingMessage, socket: Duplex): void {
    const { hostname, port } = new URL(`tcp://${url}`);
    if (!isLoopback(hostname)) {
      socket.end('HTTP/1.1 403 Forbidden\r\n\r\n');
      return;
    }
    const far = connect({ host: hostname, port: Number(port) }, () => {
      socket.write('HTTP/1.1 200 OK\r\n\r\n');
      socket.pipe(far).pipe(socket);
    });
    far.on('error', () => socket.destroy());
    socket.once('close', () => far.destroy());
  }
}

function isLoopback(host: string): boolean {
  return host === '127.0.0.1' || host === 'localhost';
}
