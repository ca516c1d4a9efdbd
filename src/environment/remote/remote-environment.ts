import type {
  CallOptions,
  CapabilityDiscovery,
  EnvironmentInfo,
  ExecBackend,
  ExecProcess,
  ExecutorFileSystem,
  ExecutorHttp,
} from '../../client/backend.ts';
import { Deadline } from '../../client/connection/call-limit.ts';
import { filesOver } from '../../client/files/client-files.ts';
import { NodeFiles } from '../../client/files/node-files.ts';
import { INFO_TIMEOUT_MS, STATUS_TIMEOUT_MS } from '../../client/limits.ts';
import type { RunResult } from '../../client/process/output-collector.ts';
import type { Command } from '../../client/process/program-options.ts';
import { type RunOptions, runProgram } from '../../client/process/run.ts';
import { type SpawnOptions, spawnProgram } from '../../client/process/spawn.ts';
import { RemoteDiscovery } from '../../client/remote-discovery.ts';
import type { AttachOptions, SharedProcesses } from '../../client/sharing.ts';
import type {
  ConnectionState,
  Environment,
  EnvironmentStatus,
  InfoOptions,
  Readiness,
} from '../environment.ts';
import { type ExecutorFetch, fetchOver } from '../fetch.ts';
import type { Provisioning } from '../provisioning.ts';
import type { ClientLike, Connection, Connector } from './connection.ts';
import { LazyBackend } from './lazy-backend.ts';
import { LazyConnection } from './lazy-connection.ts';
import { lazyFileSystem } from './lazy-file-system.ts';
import { LazyHttp } from './lazy-http.ts';
import { LazyProcesses } from './lazy-processes.ts';
import { LazyRecordings } from './lazy-recordings.ts';
import { requireSkills } from './required-skills.ts';

export interface RemoteEnvironmentOptions {
  /** Skills without which the environment is not ready. */
  readonly requiredSkills?: readonly string[];
  /** For an environment whose owner reports when it is ready. */
  readonly provisioning?: Provisioning | null;
}

/** An environment behind a connection. */
export class RemoteEnvironment implements Environment {
  readonly kind = 'remote';
  readonly id: string;
  readonly backend: ExecBackend;
  readonly processes: SharedProcesses;
  readonly recordings: LazyRecordings;
  readonly files: NodeFiles;
  readonly fileSystem: ExecutorFileSystem;
  readonly passiveFileSystem: ExecutorFileSystem;
  readonly discovery: CapabilityDiscovery = new RemoteDiscovery(this);
  readonly http: ExecutorHttp;
  readonly fetch: ExecutorFetch;
  readonly requiredSkills: readonly string[];
  /** Null for an environment without a provisioning owner. */
  readonly provisioning: Provisioning | null;
  readonly #connector: Connector;
  readonly #connection: LazyConnection;
  /** The description from `environment/info`, for an executor that sends none in the handshake. */
  #fetchedInfo: EnvironmentInfo | null = null;

  constructor(id: string, connector: Connector, options: RemoteEnvironmentOptions = {}) {
    const { requiredSkills = [], provisioning = null } = options;
    this.id = id;
    this.requiredSkills = requiredSkills;
    this.provisioning = provisioning;
    this.#connector = requiredSkills.length === 0 ? connector : requireSkills(id, connector, requiredSkills);
    this.#connection = new LazyConnection(`environment '${id}'`, this.#connector);
    this.backend = new LazyBackend(this.#connection);
    this.processes = new LazyProcesses(this.#connection);
    this.recordings = new LazyRecordings(this.#connection);
    this.fileSystem = lazyFileSystem(this.#connection);
    this.files = new NodeFiles(filesOver(this.fileSystem, this.backend));
    this.passiveFileSystem = lazyFileSystem(this.#connection, { passive: true });
    this.http = new LazyHttp(this.#connection);
    this.fetch = fetchOver(this.http);
    provisioning?.onFailure((error) => this.#connection.refuse(error));
    this.#connection.watch(({ connected }) => {
      if (!connected) this.#fetchedInfo = null;
    });
  }

  get startupFinished(): boolean {
    return this.#connection.startupFinished;
  }

  getExecBackend(): ExecBackend {
    return this.backend;
  }

  attach(refOrName: string, options?: AttachOptions): Promise<ExecProcess> {
    return this.processes.attach(refOrName, options);
  }

  run(command: Command, options?: RunOptions): Promise<RunResult> {
    return runProgram(this, command, options);
  }

  spawn(command: Command, options?: SpawnOptions): Promise<ExecProcess> {
    return spawnProgram(this, command, options);
  }

  get readiness(): Readiness {
    return this.#connection.readiness;
  }

  get connection(): ConnectionState {
    return this.#connection.state;
  }

  /** The client of the newest connection; null before the first one. */
  get client(): ClientLike | null {
    return this.#connection.current?.client ?? null;
  }

  /** Calls a method of the executor that the other members do not offer. */
  readonly call: ClientLike['call'] = (...call) => this.#connection.call(...call);

  watchConnection(listener: (state: ConnectionState) => void): () => void {
    return this.#connection.watch(listener);
  }

  async info({ fresh = false, ...options }: InfoOptions = {}): Promise<EnvironmentInfo> {
    const lease = await this.#connection.lease(options);
    try {
      const { client } = lease.connection;
      const known = client.environmentInfo ?? this.#fetchedInfo;
      if (known !== null && !fresh) return known;
      this.#fetchedInfo = await client.call('environment/info', null, {
        timeoutMs: INFO_TIMEOUT_MS,
        ...lease.options,
      });
      return this.#fetchedInfo;
    } finally {
      lease.release();
    }
  }

  async status(): Promise<EnvironmentStatus> {
    const connection = this.#connection.connected;
    if (connection !== null) return probe(connection, () => this.#connection.state.reason);
    const pending = !this.startupFinished && this.readiness === null;
    return pending
      ? { status: 'pending', error: null }
      : { status: 'disconnected', error: this.connection.reason };
  }

  startConnecting(): void {
    if (this.#connector.eager) this.#connection.start();
  }

  startForUse(): void {
    this.#connection.prepare();
  }

  async waitUntilReady(options?: CallOptions): Promise<void> {
    const deadline = new Deadline(options);
    for (;;) {
      const lease = await this.#connection.lease(deadline.remaining);
      try {
        await recovered(lease.connection.client, (recovery) =>
          deadline.wait(`recovering environment '${this.id}'`, recovery),
        );
        if (lease.connection.client.state === 'connected') return;
      } finally {
        lease.release();
      }
    }
  }

  async restart(options?: CallOptions): Promise<void> {
    const deadline = new Deadline(options);
    deadline.check(`restarting environment '${this.id}'`);
    const release = this.hold();
    try {
      await deadline.wait(`restarting environment '${this.id}'`, this.#connection.restart());
    } finally {
      release();
    }
  }

  hold(): () => void {
    return this.#connection.hold();
  }

  /** Called when another handle replaces this one. Returns the owner of the connection. */
  retire(): { dispose(): Promise<void> } {
    this.#connection.retire();
    return this.#connection;
  }

  dispose(): Promise<void> {
    return this.#connection.dispose();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.dispose();
  }
}

/** Probes the executor. A lost connection ends the probe early, because the response would be late. */
function probe({ client }: Connection, reason: () => string | null): Promise<EnvironmentStatus> {
  return new Promise((resolve) => {
    const finish = (status: EnvironmentStatus) => {
      stop();
      resolve(status);
    };
    const stop = client.onStateChange(() => {
      if (client.state !== 'connected') finish({ status: 'disconnected', error: reason() });
    });
    client.call('environment/status', null, { timeoutMs: STATUS_TIMEOUT_MS }).then(
      () => finish({ status: 'ready', error: null }),
      (error: Error) => finish({ status: 'disconnected', error: error.message }),
    );
  });
}

/** Waits with `wait` until the client has recovered or failed. */
async function recovered(
  client: ClientLike,
  wait: (recovery: Promise<void>) => Promise<void>,
): Promise<void> {
  if (client.state !== 'recovering') return;
  let stop = () => {};
  const recovery = new Promise<void>((resolve) => {
    stop = client.onStateChange(() => {
      if (client.state !== 'recovering') resolve();
    });
  });
  try {
    await wait(recovery);
  } finally {
    stop();
  }
}
