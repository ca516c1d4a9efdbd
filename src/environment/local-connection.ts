import { MAX_MESSAGE_BYTES } from '../client/limits.ts';
import { LazySpawner } from '../process/spawn/lazy-spawner.ts';
import type { ServerSettings } from '../server/config/config.ts';
import { configOf } from '../server/config/resolve.ts';
import type { InMemoryServer } from '../server/in-memory.ts';
import { LOCAL_ENVIRONMENT_ID } from './provider.ts';
import type { ClientLike, Connection, Connector } from './remote/connection.ts';
import { type ClientSettings, createConnector } from './remote/create-connector.ts';
import { LazyConnection } from './remote/lazy-connection.ts';

/** A connection to a server in this process. The first use loads and starts the server. */
export class LocalConnection extends LazyConnection {
  readonly #connector: LocalConnector;

  /** `server` overrides the defaults of the server. Throws ConfigError for an unknown name or an invalid value. */
  constructor(settings: ClientSettings = {}, server: ServerSettings = {}) {
    configOf(server);
    const connector = new LocalConnector(settings, server);
    super(`environment '${LOCAL_ENVIRONMENT_ID}'`, connector);
    this.#connector = connector;
  }

  /** Whether programs can run on a terminal; when not, why. Before the server is loaded it is a prediction. */
  get pty(): InMemoryServer['pty'] {
    return this.#connector.pty;
  }
}

class LocalConnector implements Connector {
  readonly reconnects = true;
  readonly eager = false;
  readonly retryWindowMs = 0;
  readonly inMemory = true;
  readonly #connector: Connector;
  readonly #settings: ServerSettings;
  #loading: Promise<InMemoryServer> | null = null;
  #server: InMemoryServer | null = null;

  constructor(settings: ClientSettings, server: ServerSettings) {
    this.#settings = { ...server, maxResponseBytes: server.maxResponseBytes ?? MAX_MESSAGE_BYTES };
    const open = async () => (await this.#load()).connect();
    this.#connector = createConnector({ type: 'opener', open, resumable: true }, settings);
  }

  get pty(): InMemoryServer['pty'] {
    return this.#server?.pty ?? new LazySpawner().pty;
  }

  /** The connect timeout does not include the time to load the server. */
  async connect(signal: AbortSignal): Promise<Connection> {
    await this.#load();
    return await this.#connector.connect(signal);
  }

  /** Kills the processes that are left. The client receives their last events before it is closed. */
  async dispose(client: ClientLike | null): Promise<void> {
    const server = await this.#loading;
    await server?.endSessions();
    // The answer comes behind the events.
    await client?.call('environment/status', null).catch(() => {});
    await client?.close();
    await server?.close();
  }

  #load(): Promise<InMemoryServer> {
    this.#loading ??= import('../server/in-memory.ts').then(({ createInMemoryServer }) => {
      this.#server = createInMemoryServer(this.#settings);
      return this.#server;
    });
    return this.#loading;
  }
}
