import { once, setMaxListeners } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import { MAX_CONNECTIONS } from '../proxy/limits.ts';
import type { OwnPorts } from '../proxy/own-ports.ts';
import { abortOnClose, connectToOne, joinSockets } from '../proxy/tunnel.ts';

/**
 * Lets a program in a network namespace of its own reach ports of this machine's 127.0.0.1 under the same numbers, and nothing else.
 * The sockets it connects to listen in that namespace but are served from here, so that nothing of ours has to run inside.
 */
export class LoopbackBridge {
  readonly #ownPorts: OwnPorts;
  readonly #servers: Server[] = [];
  readonly #sockets = new Set<Socket>();
  readonly #closing = new AbortController();

  /** Ports of the server itself stay out of reach. */
  constructor(ownPorts: OwnPorts) {
    this.#ownPorts = ownPorts;
    // Every connection that is being made listens; their number is bounded.
    setMaxListeners(0, this.#closing.signal);
  }

  /** Serves listening sockets and owns them from now on; the first stands for the first port, and so on. */
  async serve(ports: readonly number[], descriptors: readonly number[]): Promise<void> {
    await Promise.all(
      ports.map((port, index) => {
        const server = createServer({ allowHalfOpen: true, noDelay: true }, (socket) =>
          this.#forward(socket, port),
        );
        server.maxConnections = MAX_CONNECTIONS;
        this.#servers.push(server);
        server.listen({ fd: descriptors[index]! });
        return once(server, 'listening');
      }),
    );
  }

  /** Ends everything; connections are cut. */
  async close(): Promise<void> {
    this.#closing.abort();
    const closed = this.#servers
      .filter((server) => server.listening)
      .map((server) => new Promise<void>((resolve) => server.close(() => resolve())));
    for (const socket of this.#sockets) socket.destroy();
    await Promise.all(closed);
  }

  #forward(socket: Socket, port: number): void {
    this.#sockets.add(socket);
    socket.once('close', () => this.#sockets.delete(socket));
    socket.on('error', () => {});
    if (this.#ownPorts.includes(LOOPBACK, port)) {
      socket.destroy();
      return;
    }
    connectToOne([LOOPBACK], port, abortOnClose(socket, this.#closing.signal)).then(
      (upstream) => joinSockets(socket, upstream),
      () => socket.destroy(),
    );
  }
}

const LOOPBACK = '127.0.0.1';
