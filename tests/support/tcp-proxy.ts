import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net';

/** Forwards connections to a server that a test can change, and cuts them. */
export class TcpProxy {
  /** Where new connections go; null refuses them. */
  target: number | null;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor(target: number) {
    this.target = target;
    this.#server = createServer((near) => this.#forward(near));
  }

  static async open(target: number): Promise<TcpProxy> {
    const proxy = new TcpProxy(target);
    proxy.#server.listen(0, '127.0.0.1');
    await once(proxy.#server, 'listening');
    return proxy;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  /** Ends every connection without a goodbye. */
  cut(): void {
    for (const socket of this.#sockets) socket.resetAndDestroy();
  }

  async close(): Promise<void> {
    const closed = once(this.#server, 'close');
    this.#server.close();
    this.cut();
    await closed;
  }

  #forward(near: Socket): void {
    this.#track(near);
    if (this.target === null) return void near.resetAndDestroy();
    const far = this.#track(connect(this.target, '127.0.0.1'));
    near.pipe(far).pipe(near);
    near.on('close', () => far.destroy());
    far.on('close', () => near.destroy());
  }

  #track(socket: Socket): Socket {
    this.#sockets.add(socket);
    socket.on('error', () => {}).on('close', () => this.#sockets.delete(socket));
    return socket;
  }
}
