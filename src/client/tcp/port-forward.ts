import { createServer, type Server, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { endedByReset, resetSocket } from '../../base/reset-socket.ts';
import type { CallOptions } from '../backend.ts';
import type { ClientState } from '../client-core.ts';
import { ClientError } from '../errors.ts';
import { FORWARD_ATTEMPTS, MAX_TCP_STREAMS } from '../limits.ts';
import type { TcpTarget } from './tcp-streams.ts';

/** Which port of the server's machine to forward, and from where. */
export interface ForwardOptions extends TcpTarget {
  /** The port to listen on. Default: 0, any free port. */
  readonly localPort?: number;
  /** The address to listen on. Default: 127.0.0.1, which only programs of this machine reach. */
  readonly localHost?: string;
  /** Called when a connection could not be forwarded. It is reset. */
  readonly onError?: (error: ClientError) => void;
}

/** The part of a client that a forwarded port needs. */
interface ForwardClient {
  readonly state: ClientState;
  connectTcp(target: TcpTarget, options?: CallOptions): Promise<Duplex>;
  onStateChange(listener: (state: ClientState) => void): () => void;
}

/** A local port whose connections lead to a port of the server's machine. It closes with its client. */
export class PortForward implements AsyncDisposable {
  readonly #client: ForwardClient;
  readonly #options: ForwardOptions;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  /** Aborts the connections that wait for the server. */
  readonly #closing = new AbortController();
  readonly #closed: Promise<void>;
  readonly #unsubscribe: () => void;

  private constructor(client: ForwardClient, options: ForwardOptions) {
    this.#client = client;
    this.#options = options;
    this.#server = createServer({ allowHalfOpen: true, pauseOnConnect: true, noDelay: true });
    this.#server.maxConnections = MAX_TCP_STREAMS;
    this.#server.on('connection', (socket) => void this.#forward(socket));
    this.#closed = new Promise((resolve) => this.#server.once('close', resolve));
    this.#unsubscribe = client.onStateChange((state) => {
      if (state === 'closed' || state === 'failed') void this.close();
    });
  }

  /** Starts to listen. Rejects with ClientError. */
  static async open(client: ForwardClient, options: ForwardOptions): Promise<PortForward> {
    const forward = new PortForward(client, options);
    const { localHost: host = '127.0.0.1', localPort: port = 0 } = options;
    await new Promise<void>((resolve, reject) => {
      forward.#server.once('error', (error: NodeJS.ErrnoException) => {
        forward.#unsubscribe();
        const reason = error.code === 'EADDRINUSE' ? 'the port is in use' : error.message;
        const hint = 'choose another `localPort`; 0 takes any free port';
        reject(
          new ClientError('config', `cannot listen on ${host}:${port}: ${reason}`, { hint, cause: error }),
        );
      });
      forward.#server.listen({ host, port }, resolve);
    });
    return forward;
  }

  /** The local port. */
  get port(): number {
    const address = this.#server.address();
    return typeof address === 'object' && address !== null ? address.port : 0;
  }

  /** Stops listening and resets the open connections. Resolves when the port is free. */
  async close(): Promise<void> {
    this.#unsubscribe();
    this.#closing.abort();
    this.#server.close();
    for (const socket of this.#sockets) resetSocket(socket);
    await this.#closed;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #forward(local: Socket): Promise<void> {
    this.#sockets.add(local);
    local.once('close', () => this.#sockets.delete(local));
    // `join` handles errors; this listener is for those before it.
    local.on('error', () => {});
    try {
      join(local, await this.#connect());
    } catch (error) {
      resetSocket(local);
      if (!this.#closing.signal.aborted) this.#options.onError?.(error as ClientError);
    }
  }

  /** Tries again when the connection to the server was lost meanwhile: the peer has got no data yet. */
  async #connect(): Promise<Duplex> {
    const { host, port } = this.#options;
    const target = { port, ...(host !== undefined && { host }) };
    for (let attempt = 1; ; attempt++) {
      try {
        return await this.#client.connectTcp(target, { signal: this.#closing.signal });
      } catch (error) {
        const lost = error instanceof ClientError && error.kind === 'brokenPipe';
        if (!lost || attempt === FORWARD_ATTEMPTS) throw error;
      }
    }
  }
}

/** Joins two streams. The end of one side is passed on; if one breaks, the other is reset. */
function join(local: Socket, remote: Duplex): void {
  local.once('close', () => {
    if (!local.readableEnded || !local.writableFinished) remote.destroy();
  });
  // Before `pipe`, which ends the other side.
  local.once('end', () => {
    if (endedByReset(local)) remote.destroy();
  });
  remote.on('error', () => resetSocket(local));
  if (local.destroyed) remote.destroy();
  local.pipe(remote);
  remote.pipe(local);
}
