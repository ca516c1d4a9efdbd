import type { EnvironmentInfo } from '../client/backend.ts';
import { expectOptions, type OptionNames } from '../client/connection/option-checks.ts';
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
  validateTransport,
} from './provider.ts';
import { Provisioning, type ProvisioningReport } from './provisioning.ts';
import { type AcceptedSocket, AcceptedSockets } from './remote/accepted-sockets.ts';
import type { Connector } from './remote/connection.ts';
import {
  acceptedConnector,
  CLIENT_SETTINGS,
  type ClientSettings,
  createConnector,
} from './remote/create-connector.ts';
import { RemoteEnvironment } from './remote/remote-environment.ts';

/** Options of a manager. The defaults suit everything but tests. */
export interface ManagerOptions extends ClientSettings {
  readonly connectorFor?: (transport: EnvironmentTransport) => Connector;
  readonly openLocal?: () => Environment;
}

const MANAGER_OPTIONS: OptionNames<ManagerOptions> = {
  ...CLIENT_SETTINGS,
  connectorFor: true,
  openLocal: true,
};

/** The status of an id; `unknown` without an environment. */
export interface NamedStatus {
  readonly status: EnvironmentStatus['status'] | 'unknown';
  readonly error: string | null;
}

interface Disposable {
  dispose(): Promise<void>;
}

/** The environments of one program by id. It owns the handles that it creates, including replaced ones. */
export class EnvironmentManager {
  /** The id of the default environment; null when there is none. Adding environments never changes it. */
  readonly defaultId: string | null;
  readonly #options: ManagerOptions;
  readonly #environments = new Map<string, Environment>();
  /** Sockets of environments whose connections come from the host program. */
  readonly #accepted = new WeakMap<Environment, AcceptedSockets>();
  /** Connections of replaced handles that may still be in use. */
  readonly #retired = new Set<WeakRef<Disposable>>();
  #disposed = false;

  /** Validates everything before it starts the first connection. */
  constructor(provided: ProvidedEnvironments, options: ManagerOptions = {}) {
    validateProvided(provided);
    expectOptions('EnvironmentManager', options, MANAGER_OPTIONS, 'config');
    this.#options = options;
    this.defaultId = provided.default;
    if (provided.includeLocal) {
      const { connectorFor: _connectorFor, openLocal, ...settings } = options;
      this.#environments.set(LOCAL_ENVIRONMENT_ID, openLocal?.() ?? new LocalEnvironment(settings));
    }
    for (const { id, transport, requiredSkills = [] } of provided.environments) {
      this.#environments.set(id, this.#create(id, this.#connectorFor(transport), { requiredSkills }));
    }
    for (const environment of this.#environments.values()) environment.startConnecting();
  }

  /** Creates the environments of a provider. */
  static async open(provider: EnvironmentProvider, options?: ManagerOptions): Promise<EnvironmentManager> {
    return new EnvironmentManager(await provider.snapshot(), options);
  }

  /** The ids: the default first, then the others in configuration order and in the order of their addition. */
  get ids(): readonly string[] {
    const ids = [...this.#environments.keys()];
    return this.defaultId === null ? ids : [this.defaultId, ...ids.filter((id) => id !== this.defaultId)];
  }

  get default(): Environment | null {
    return this.defaultId === null ? null : this.get(this.defaultId);
  }

  /** The current handle of an id; null when there is none. */
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
   * Creates an environment and starts to connect it where that is cheap. It replaces a handle with the same id: callers that have
   * the old handle may keep using it, all others get the new one. Throws ClientError `config` when the id or the transport is
   * invalid, and changes nothing.
   */
  add(id: string, transport: EnvironmentTransport): Environment {
    validateId(id);
    validateTransport(id, transport);
    const environment = this.#install(id, () => this.#create(id, this.#connectorFor(transport)));
    environment.startConnecting();
    return environment;
  }

  /** Creates an environment from a connection that its executor opened. The host has authenticated the executor. */
  accept(id: string, socket: AcceptedSocket): Environment {
    const sockets = new AcceptedSockets(`environment '${id}'`, socket);
    const connector = acceptedConnector(sockets, this.#options);
    const environment = this.#install(id, () => this.#create(id, connector));
    this.#accepted.set(environment, sockets);
    environment.startConnecting();
    return environment;
  }

  /**
   * Replaces the connection of an accepted environment and resumes its session in the background. Throws when the environment
   * cannot use the socket, which then still belongs to the caller.
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

  /** Checks the status of an environment. Never connects. */
  async status(id: string): Promise<NamedStatus> {
    const environment = this.get(id);
    return environment === null ? { status: 'unknown', error: null } : environment.status();
  }

  /** Requests the executor's current description of itself. */
  async info(id: string, options: InfoOptions = {}): Promise<EnvironmentInfo> {
    return this.require(id).info({ fresh: true, ...options });
  }

  /**
   * Returns the environment that its owner is provisioning under the id, and creates it if necessary. It connects on use, but not
   * before its owner reports it ready.
   */
  materializePending(id: string, transport: EnvironmentTransport): Environment {
    const existing = this.get(id);
    if (existing === null) return this.#provision(id, transport);
    if (provisioningOf(existing) !== null) return existing;
    throw new ClientError('config', `environment '${id}' exists and is not provisioned`, {
      hint: 'provision it under another id',
    });
  }

  /**
   * Applies a report of the owner of a provisioned environment. It does not affect other environments. A missing environment is
   * created from the report, unless the report is invalid.
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

  /** Closes all connections, including those of replaced handles. */
  async dispose(): Promise<void> {
    this.#disposed = true;
    const retired = [...this.#retired].map((reference) => reference.deref());
    const all: (Disposable | undefined)[] = [...this.#environments.values(), ...retired];
    await Promise.all(all.map((each) => each?.dispose()));
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.dispose();
  }

  #connectorFor(transport: EnvironmentTransport): Connector {
    return this.#options.connectorFor?.(transport) ?? createConnector(transport, this.#options);
  }

  #create(
    id: string,
    connector: Connector,
    parts: { requiredSkills?: readonly string[]; provisioning?: Provisioning } = {},
  ): RemoteEnvironment {
    // The requirement belongs to the environment, not to the handle that is replaced.
    const { requiredSkills = this.get(id)?.requiredSkills ?? [] } = parts;
    return new RemoteEnvironment(id, connector, { ...parts, requiredSkills });
  }

  #provision(id: string, transport: EnvironmentTransport): RemoteEnvironment {
    validateId(id);
    validateTransport(id, transport);
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
    if (this.#disposed) throw new ClientError('closed', 'the environment manager is closed');
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
    // The owner can no longer report on it.
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
