import type { Readable, Writable } from 'node:stream';
import type { ContentSearch } from '../files/search/content-search.ts';
import { createLogger, type Logger } from '../observability/log.ts';
import { SIGTERM } from '../process/signals.ts';
import { LazySpawner } from '../process/spawn/lazy-spawner.ts';
import { StdioTransport } from '../transport/stdio.ts';
import { CloseCode, type CloseReason, type Transport } from '../transport/transport.ts';
import { ClientConnection, type ConnectionServices } from './client-connection.ts';
import type { ExecServerConfig } from './config.ts';
import { describeEnvironment } from './environment-info.ts';
import { parseListenUrl } from './listen-url.ts';
import { Listener } from './listener.ts';
import { SessionRegistry } from './session-registry.ts';

/** A server that is up. */
export interface RunningServer {
  /** Where clients connect; null when the server does not listen. */
  readonly url: string | null;
  /** Resolves when the server has ended, whoever ended it. */
  readonly closed: Promise<void>;
  /** Stops accepting, lets programs end, kills the rest, and closes every connection with a reason. */
  close(reason?: string): Promise<void>;
}

/** Serves on the configured address; resolves once clients can connect. Programs can be started as soon as one does. */
export async function serve(config: ExecServerConfig): Promise<RunningServer> {
  const address = parseListenUrl(config.listen);
  if (address.kind === 'stdio') throw new Error('stdio has no address; use serveStdio');
  const server = new ExecServer(config);
  const url = address.kind === 'off' ? null : await server.listen(address.host, address.port);
  return { url, closed: server.closed, close: (reason) => server.close(reason) };
}

/** Serves one client over a pair of streams. Its end is the server's end, and nothing is kept for a resume. */
export async function serveStdio(
  config: ExecServerConfig,
  input: Readable,
  output: Writable,
): Promise<RunningServer> {
  const server = new ExecServer({ ...config, detachedSessionTtlMs: 0 });
  void server.accept(new StdioTransport(input, output, config)).then(() => server.close());
  return { url: null, closed: server.closed, close: (reason) => server.close(reason) };
}

/** Owns everything a server has: sessions, connections, the listener and the spawner. */
export class ExecServer {
  /** Resolves when `close` has done its work. */
  readonly closed: Promise<void>;
  readonly #config: ExecServerConfig;
  readonly #log: Logger;
  readonly #connections = new Set<ClientConnection>();
  readonly #resolveClosed: () => void;
  readonly #spawner: LazySpawner;
  readonly #services: ConnectionServices & { readonly sessions: SessionRegistry };
  /** Set with the first session. */
  #prepared: NodeJS.Immediate | null = null;
  #listener: Listener | null = null;
  #search: Promise<ContentSearch> | null = null;
  #closing: Promise<void> | null = null;

  constructor(config: ExecServerConfig, log?: Logger) {
    this.#config = config;
    this.#log = log ?? createLogger(config.logLevel, (line) => process.stderr.write(line));
    let resolveClosed = () => {};
    this.closed = new Promise((resolve) => {
      resolveClosed = resolve;
    });
    this.#resolveClosed = resolveClosed;
    this.#spawner = new LazySpawner(config.nativeSpawn, config.protectMemory);
    this.#services = {
      config,
      log: this.#log,
      sessions: new SessionRegistry(config, this.#spawner),
      search: () => {
        this.#search ??= loadContentSearch();
        return this.#search;
      },
      environmentInfo: () => describeEnvironment(config, this.#spawner.pty.available),
      // After the answer: a client that opens a session is about to start something.
      sessionOpened: () => {
        this.#prepared ??= setImmediate(() => void this.#prepare().catch(() => undefined));
      },
    };
  }

  /** Opens the listener and returns its URL. */
  async listen(host: string, port: number): Promise<string> {
    const accepted = (transport: Transport) => void this.accept(transport);
    this.#listener = new Listener({ ...this.#config, host, port, accepted });
    return this.#listener.listen();
  }

  /** Serves one client; resolves when it is gone. */
  async accept(transport: Transport): Promise<CloseReason> {
    const connection = new ClientConnection(transport, this.#services);
    this.#connections.add(connection);
    const reason = await connection.closed;
    this.#connections.delete(connection);
    this.#log.info('connection closed', { code: reason.code, reason: reason.reason });
    return reason;
  }

  close(reason = 'the server is shutting down'): Promise<void> {
    this.#closing ??= this.#shutDown(reason);
    return this.#closing;
  }

  async #prepare(): Promise<void> {
    const { pty } = await this.#spawner.prepare();
    if (!pty.available) this.#log.warn('terminals are not available', { reason: pty.reason });
  }

  async #shutDown(reason: string): Promise<void> {
    this.#listener?.drain();
    await this.#services.sessions.close(SIGTERM, this.#config.shutdownGracePeriodMs);
    await Promise.all([...this.#connections].map((connection) => endConnection(connection, reason)));
    await this.#spawner.close();
    await this.#listener?.close();
    this.#resolveClosed();
  }
}

async function endConnection(connection: ClientConnection, reason: string): Promise<void> {
  connection.close({ code: CloseCode.goingAway, reason });
  await connection.closed;
}

async function loadContentSearch(): Promise<ContentSearch> {
  const { ContentSearch } = await import('../files/search/content-search.ts');
  return new ContentSearch(process.env.PATH ?? '');
}
