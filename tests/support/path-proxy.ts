import { once } from 'node:events';
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http';
import { type AddressInfo, connect } from 'node:net';
import type { Duplex } from 'node:stream';

/** An HTTP proxy that chooses a server by the first part of the path, like the ingress of a cluster. */
export class PathProxy {
  /** The port behind each prefix. The longest prefix counts; without one the proxy answers 404. */
  readonly routes = new Map<string, number>();
  /** The prefixes of the websockets that were opened, in their order. */
  readonly upgrades: string[] = [];
  readonly #strips: boolean;
  readonly #sockets = new Set<Duplex>();
  readonly #server = createServer((incoming, answer) => this.#forward(incoming, answer));

  /** `strips`: whether the servers get paths without their prefix. */
  static async start(strips: boolean): Promise<PathProxy> {
    const proxy = new PathProxy(strips);
    proxy.#server.listen(0, '127.0.0.1');
    await once(proxy.#server, 'listening');
    return proxy;
  }

  private constructor(strips: boolean) {
    this.#strips = strips;
    this.#server.on('connection', (socket) => this.#track(socket));
    this.#server.on('upgrade', (incoming, socket) => this.#tunnel(incoming, socket));
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async close(): Promise<void> {
    const closed = once(this.#server, 'close');
    this.#server.close();
    for (const socket of this.#sockets) socket.destroy();
    await closed;
  }

  #forward(incoming: IncomingMessage, answer: ServerResponse): void {
    const route = this.#route(incoming.url!);
    if (route === null) return void answer.writeHead(404).end();
    const { method, headers } = incoming;
    const options = {
      host: '127.0.0.1',
      port: route.port,
      path: route.path,
      method: method!,
      headers,
      agent: false,
    };
    const sent = request(options, (response) => {
      answer.writeHead(response.statusCode!, response.headers);
      response.pipe(answer);
    });
    sent.once('error', () => answer.destroy());
    incoming.pipe(sent);
  }

  #tunnel({ url, rawHeaders }: IncomingMessage, near: Duplex): void {
    const route = this.#route(url!);
    if (route === null) return void near.end('HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n');
    this.upgrades.push(route.prefix);
    const far = this.#track(connect(route.port, '127.0.0.1'));
    const lines = rawHeaders.flatMap((name, index) =>
      index % 2 === 0 ? [`${name}: ${rawHeaders[index + 1]}`] : [],
    );
    far.write(`GET ${route.path} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`);
    near.pipe(far).pipe(near);
    near.on('close', () => far.destroy());
    far.on('close', () => near.destroy());
  }

  #route(path: string): { readonly prefix: string; readonly port: number; readonly path: string } | null {
    const [prefix] = [...this.routes.keys()]
      .filter((candidate) => path.startsWith(candidate))
      .sort((left, right) => right.length - left.length);
    if (prefix === undefined) return null;
    const port = this.routes.get(prefix)!;
    return { prefix, port, path: this.#strips ? `/${path.slice(prefix.length)}` : path };
  }

  #track<T extends Duplex>(socket: T): T {
    this.#sockets.add(socket);
    socket.on('error', () => {}).on('close', () => this.#sockets.delete(socket));
    return socket;
  }
}
