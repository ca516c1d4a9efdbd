import { createServer, type Server, type Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { endedByReset, resetSocket } from '../../base/reset-socket.ts';
import { CallLimit } from '../connection/call-limit.ts';
import { ClientError, type ClientErrorKind } from '../errors.ts';
import { FORWARD_TIMEOUT_MS, MAX_TCP_STREAMS } from '../limits.ts';

/** What a {@link LocalListener} does with its connections. */
export interface LocalListenerOptions {
  readonly host: string;
  /** 0 is any free port. */
  readonly port: number;
  /**
   * Opens the stream that a connection leads to. Returns null when it has ended the connection itself. A rejection resets it. The
   * signal aborts when the listener is closed and when this takes too long.
   */
  open(socket: Socket, signal: AbortSignal): Promise<Duplex | null>;
  /** Called when a connection got no stream. */
  onError(error: ClientError): void;
}

/** A port of this machine whose connections are joined with streams. */
export class LocalListener {
  readonly #options: LocalListenerOptions;
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  /** Aborts the connections that wait for a stream. */
  readonly #closing = new AbortController();
  /** Resolves when it no longer listens and its last connection has ended. */
  readonly closed: Promise<void>;
  #openStreams = 0;

  private constructor(options: LocalListenerOptions) {
    this.#options = options;
    this.#server = createServer({ allowHalfOpen: true, pauseOnConnect: true, noDelay: true });
    this.#server.maxConnections = MAX_TCP_STREAMS;
    this.#server.on('connection', (socket) => void this.#accept(socket));
    this.#server.on('drop', () => {
      options.onError(
        new ClientError('overloaded', `${MAX_TCP_STREAMS} connections are open, the maximum of a port`),
      );
    });
    this.closed = new Promise((resolve) => this.#server.once('close', resolve));
  }

  /** Starts to listen. Rejects with ClientError, whose cause is the error of the system. */
  static async open(options: LocalListenerOptions): Promise<LocalListener> {
    const listener = new LocalListener(options);
    const { host, port } = options;
    await new Promise<void>((resolve, reject) => {
      listener.#server.once('error', (error: NodeJS.ErrnoException) => {
        const [kind, reason] = LISTEN_ERRORS[error.code ?? ''] ?? ['invalidInput', error.message];
        const hint = 'choose another `localPort`; 0 takes any free port';
        const at = host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`;
        reject(new ClientError(kind, `cannot listen on ${at}: ${reason}`, { hint, cause: error }));
      });
      listener.#server.listen({ host, port }, resolve);
    });
    listener.#server.removeAllListeners('error').on('error', ({ message }) => {
      options.onError(new ClientError('overloaded', `cannot accept a connection: ${message}`));
    });
    return listener;
  }

  /** The local port. */
  get port(): number {
    const address = this.#server.address();
    return typeof address === 'object' && address !== null ? address.port : 0;
  }

  /** How many connections have a stream. */
  get openStreams(): number {
    return this.#openStreams;
  }

  /** Stops listening. Open connections stay. */
  stop(): void {
    this.#server.close();
  }

  /** Stops listening and resets the open connections. Resolves when the port is free. */
  async close(): Promise<void> {
    this.#closing.abort();
    this.#server.close();
    for (const socket of this.#sockets) resetSocket(socket);
    await this.closed;
  }

  async #accept(socket: Socket): Promise<void> {
    this.#sockets.add(socket);
    socket.once('close', () => this.#sockets.delete(socket));
    // `join` handles errors; this listener is for those before it.
    socket.on('error', () => {});
    const limit = new CallLimit(
      'the connection to the port of the server',
      { signal: this.#closing.signal, timeoutMs: FORWARD_TIMEOUT_MS },
      { kind: 'timeout', hint: 'the server cannot be reached, or the port does not answer' },
    );
    try {
      const stream = await this.#options.open(socket, limit.signal!);
      if (stream === null) return;
      this.#openStreams++;
      stream.once('close', () => this.#openStreams--);
      join(socket, stream);
    } catch (error) {
      resetSocket(socket);
      const reason = limit.signal?.aborted ? limit.signal.reason : error;
      if (!this.#closing.signal.aborted) this.#options.onError(reason as ClientError);
    } finally {
      limit.end();
    }
  }
}

const LISTEN_ERRORS: Readonly<Record<string, readonly [ClientErrorKind, string]>> = {
  EADDRINUSE: ['conflict', 'the port is in use'],
  EACCES: ['permissionDenied', 'this user may not listen on this port'],
  EADDRNOTAVAIL: ['invalidInput', 'this machine does not have the address'],
};

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
