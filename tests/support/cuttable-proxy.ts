import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

/** Forwards TCP connections to a server, and can lose them. */
export class CuttableProxy {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #isDown = false;

  private constructor(targetPort: number) {
    this.#server = createServer((client) => {
      if (this.#isDown) {
        client.destroy();
        return;
      }
      const upstream = connect(targetPort, '127.0.0.1');
      for (const [from, to] of [
        [client, upstream],
        [upstream, client],
      ] as const) {
        this.#sockets.add(from);
        from.on('error', () => {});
        from.on('close', () => {
          this.#sockets.delete(from);
          to.destroy();
        });
        from.pipe(to);
      }
    });
  }

  static async start(targetUrl: string): Promise<CuttableProxy> {
    const proxy = new CuttableProxy(Number(new URL(targetUrl).port));
    await once(proxy.#server.listen(0, '127.0.0.1'), 'listening');
    return proxy;
  }

  get url(): string {
    return `ws://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** Loses all connections. New ones are refused until `restore`. */
  cut(): void {
    this.#isDown = true;
    for (const socket of this.#sockets) socket.resetAndDestroy();
  }

  restore(): void {
    this.#isDown = false;
  }

  async close(): Promise<void> {
    this.cut();
    this.#server.close();
    await once(this.#server, 'close');
  }
}
