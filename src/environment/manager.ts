import type { EnvironmentInfo } from '../client/backend.ts';
import { ClientError } from '../client/errors.ts';
import type { Environment, EnvironmentStatus, InfoOptions } from './environment.ts';
import { MAX_ENVIRONMENTS } from './limits.ts';
import { LocalEnvironment } from './local-environment.ts';
import {
  type EnvironmentProvider,
  type EnvironmentTransport,
  LOCAL_ENVIRONMENT_ID,
  type ProvidedEnvironments,
  tooMany,
  validateId,
  validateProvided,
} from './provider.ts';
import { Provisioning, type ProvisioningReport } from './provisioning.ts';
import { type AcceptedSocket, AcceptedSockets } from './remote/accepted-sockets.ts';
import type { Connector } from './remote/connection.ts';
import { acceptedConnector, type ClientSettings, createConnector } from './remote/create-connector.ts';
import { RemoteEnvironment } from './remote/remote-environment.ts';

/** What a manager is made with; everything has a default that is right outside tests. */
export interface ManagerOptions extends ClientSettings {
  readonly connectorFor?: (transport: EnvironmentTransport) => Connector;
  readonly openLocal?: () => Environment;
}

/** The status of an id that nobody knows is `unknown`. */
export interface NamedStatus {
  readonly status: EnvironmentStatus['status'] | 'unknown';
  readonly error: string | null;
}

interface Disposable {
  dispose(): Promise<void>;
}

/** The environments of one program by id. It owns the handles it makes, replaced ones included. */
export class EnvironmentManager {
  /** The environment to use where nobody asks for another; null when there is none. Adding environments never changes it. */
  readonly defaultId: string | null;
  readonly #options: ManagerOptions;
  readonly #environments = new Map<string, Environment>();
  /** Sockets of the environments whose connections are handed in from outside. */
  readonly #accepted = new WeakMap<Environment, AcceptedSockets>();
  /** Connections of replaced handles; those in use are alive. */
  readonly #retired = new Set<WeakRef<Disposable>>();
  #disposed = false;

  /** Checks everything before the first connection is started. */
  constructor(provided: ProvidedEnvironments, options: ManagerOptions = {}) {
    validateProvided(provided);
    this.#options = options;
    this.defaultId = provided.default;
    if (provided.includeLocal) {
      this.#environments.set(LOCAL_ENVIRONMENT_ID, options.openLocal?.() ?? new LocalEnvironment(options));
    }
    for (const { id, transport, requiredSkills = [] } of provided.environments) {
      this.#environments.set(id, this.#create(id, this.#connectorFor(transport), { requiredSkills }));
    }
    for (const environment of this.#environments.values()) environment.startConnecting();
  }

  /** Asks the provider and makes what it describes. */
  static async open(provider: EnvironmentProvider, options?: ManagerOptions): Promise<EnvironmentManager> {
    return new EnvironmentManager(await provider.snapshot(), options);
  }

  /** The default first, then the others in the order in which they were configured and added. */
  get ids(): readonly string[] {
    const ids = [...this.#environments.keys()];
    return this.defaultId === null ? ids : [this.defaultId, ...ids.filter((id) => id !== this.defaultId)];
  }

  get default(): Environment | null {
    return this.defaultId === null ? null : this.get(this.defaultId);
  }

  /** The handle that has the id now; null when none has. */
  get(id: string): Environment | null {
    return this.#environments.get(id) ?? null;
  }

  /** Like {@link get} for an id that must exist. */
  require(id: string): Environment {
    const environment = this.get(id);
    if (environment !== null) return environment;
    throw new ClientError('invalidInput', `there is no environment '${id}'`, {
      hint: `the environments are ${this.ids.join(', ') || 'none'}`,
    });
  }

  /**
   * Makes an environment and starts to connect it, where that is done before the first use. A handle that has the id already makes
   * way: those who hold it may go on with it, everybody else gets the new one.
   */
  add(id: string, transport: EnvironmentTransport): Environment {
    if (transport.type === 'websocket' && /^(?:none)?$/i.test(transport.url.trim())) {
      throw new ClientError('config', `the URL of environment '${id}' is '${transport.url}'`, {
        hint: 'write ws://HOST:PORT or wss://HOST',
      });
    }
    const environment = this.#install(id, () => this.#create(id, this.#connectorFor(transport)));
    environment.startConnecting();
    return environment;
  }

  /** Makes an environment of a connection that its executor has opened. The host has checked who that is. */
  accept(id: string, socket: AcceptedSocket): Environment {
    const sockets = new AcceptedSockets(`environment '${id}'`, socket);
    const connector = acceptedConnector(sockets, this.#options);
    const environment = this.#install(id, () => this.#create(id, connector));
    this.#accepted.set(environment, sockets);
    environment.startConnecting();
    return environment;
  }

  /**
   * Gives an accepted environment a new connection in place of its present one; its session is resumed on it in the background.
   * Throws, and leaves the socket to the caller, when it cannot be used.
   */
  replaceSocket(id: string, socket: AcceptedSocket): void {
    const environment = this.require(id);
    const sockets = this.#accepted.get(environment);
    if (sockets === undefined || !(environment instanceof RemoteEnvironment)) {
      throw new ClientError('invalidInput', `environment '${id}' opens its connections itself`, {
        hint: 'add an environment under this id to replace it',
      });
    }
    sockets.replace(socket, environment.client);
  }

  /** What a look at the environment shows. Never starts or reconnects anything. */
  async status(id: string): Promise<NamedStatus> {
    const environment = this.get(id);
    return environment === null ? { status: 'unknown', error: null } : environment.status();
  }

  /** What the executor says of itself, asked for now. */
  async info(id: string, options: InfoOptions = {}): Promise<EnvironmentInfo> {
    return this.require(id).info({ fresh: true, ...options });
  }

  /**
   * The environment that somebody is about to set up under the id; made now unless it is there. It connects when it is used, and
   * not before its owner has reported it ready.
   */
  materializePending(id: string, transport: EnvironmentTransport): Environment {
    const existing = this.get(id);
    if (existing === null) return this.#provision(id, transport);
    if (provisioningOf(existing) !== null) return existing;
    throw new ClientError('config', `environment '${id}' exists and is not a provisioned one`, {
      hint: 'provision it under another id',
    });
  }

  /**
   * Takes what the owner of a provisioned environment reports. Nothing happens to an ordinary environment; one that is not there is
   * made with what is reported, unless that is invalid.
   */
  reportProvisioning(id: string, transport: EnvironmentTransport, report: ProvisioningReport): void {
    const existing = this.get(id);
    if (existing !== null) {
      provisioningOf(existing)?.report(report);
      return;
    }
    new Provisioning(id).report(report);
    provisioningOf(this.#provision(id, transport))!.report(report);
  }

  /** Ends all connections, those of replaced handles included. */
  async dispose(): Promise<void> {
    this.#disposed = true;
    const retired = [...this.#retired].map((reference) => reference.deref());
    const all: (Disposable | undefined)[] = [...this.#environments.values(), ...retired];
    await Promise.all(all.map((each) => each?.dispose()));
  }

  #connectorFor(transport: EnvironmentTransport): Connector {
    return this.#options.connectorFor?.(transport) ?? createConnector(transport, this.#options);
  }

  #create(
    id: string,
    connector: Connector,
    parts: { requiredSkills?: readonly string[]; provisioning?: Provisioning } = {},
  ): RemoteEnvironment {
    return new RemoteEnvironment(id, connector, parts);
  }

  #provision(id: string, transport: EnvironmentTransport): RemoteEnvironment {
    const provisioning = new Provisioning(id);
    const connector = this.#connectorFor(transport);
    const gated: Connector = {
      reconnects: connector.reconnects,
      eager: false,
      retryWindowMs: connector.retryWindowMs,
      async connect(signal) {
        await provisioning.wait(signal);
        return connector.connect(signal);
      },
    };
    return this.#install(id, () => this.#create(id, gated, { provisioning }));
  }

  #install(id: string, create: () => RemoteEnvironment): RemoteEnvironment {
    if (this.#disposed) throw new ClientError('closed', 'the environments were closed');
    validateId(id);
    const previous = this.get(id);
    if (previous === null && this.#environments.size >= MAX_ENVIRONMENTS) throw tooMany();
    const environment = create();
    this.#environments.set(id, environment);
    if (previous instanceof RemoteEnvironment) this.#retire(previous);
    return environment;
  }

  #retire(environment: RemoteEnvironment): void {
    const { id, provisioning } = environment;
    // Its owner will not be heard any more.
    if (provisioning?.status === 'pending') {
      provisioning.report({
        status: 'failed',
        error: `environment '${id}' was replaced before it was ready`,
      });
    }
    for (const reference of this.#retired) {
      if (reference.deref() === undefined) this.#retired.delete(reference);
    }
    this.#retired.add(new WeakRef(environment.retire()));
  }
}

function provisioningOf(environment: Environment): Provisioning | null {
  return environment instanceof RemoteEnvironment ? environment.provisioning : null;
}
