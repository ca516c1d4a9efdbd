import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

/** A TCP proxy between client and server that a test can stall, cut and restore. */
export class TcpProxy {
  readonly #server: Server;
  readonly #target: { host: string; port: number };
  readonly #links = new Set<Link>();
  #refusing = false;

  private constructor(target: { host: string; port: number }) {
    this.#target = target;
    this.#server = createServer({ allowHalfOpen: false }, (socket) => this.#accept(socket));
  }

  /** Opens a proxy in front of a websocket URL. */
  static async open(targetUrl: string): Promise<TcpProxy> {
    const { hostname, port } = new URL(targetUrl);
    const proxy = new TcpProxy({ host: hostname, port: Number(port) });
    proxy.#server.listen(0, '127.0.0.1');
    await once(proxy.#server, 'listening');
    return proxy;
  }

  /** The URL for clients. */
  get url(): string {
    return `ws://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Cuts every connection. New ones are still accepted. */
  drop(): void {
    for (const { client, upstream } of this.#links) {
      client.destroy();
      upstream.destroy();
    }
  }

  /** Cuts every connection and refuses new ones until `restore`. */
  interrupt(): void {
    this.#refusing = true;
    this.drop();
  }

  restore(): void {
    this.#refusing = false;
  }

  /** Stops or resumes the data from the server to the clients. */
  setStalled(stalled: boolean): void {
    for (const { client, upstream } of this.#links) {
      if (stalled) upstream.unpipe(client);
      else upstream.pipe(client);
    }
  }

  async close(): Promise<void> {
    const closed = once(this.#server, 'close');
    this.#server.close();
    this.drop();
    await closed;
  }

  #accept(client: Socket): void {
    client.on('error', () => client.destroy());
    if (this.#refusing) {
      client.destroy();
      return;
    }
    const upstream = connect(this.#target);
    const link = { client, upstream };
    this.#links.add(link);
    for (const socket of [client, upstream]) {
      socket.setNoDelay(true);
      socket.on('error', () => socket.destroy());
      socket.on('close', () => {
        client.destroy();
        upstream.destroy();
        this.#links.delete(link);
      });
    }
    client.pipe(upstream);
    upstream.pipe(client);
  }
}

interface Link {
  readonly client: Socket;
  readonly upstream: Socket;
}
