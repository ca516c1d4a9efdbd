import { Listeners, notify } from '../base/listeners.ts';
import type {
  CallOptions,
  EnvironmentInfo,
  ExecBackend,
  ExecProcess,
  ExecutorFileSystem,
  StartOptions,
  StartParams,
} from '../client/backend.ts';
import { expectOptions } from '../client/connection/option-checks.ts';
import { ClientError } from '../client/errors.ts';
import { filesOver } from '../client/files/client-files.ts';
import { NodeFiles } from '../client/files/node-files.ts';
import { INFO_TIMEOUT_MS } from '../client/limits.ts';
import type { RunResult } from '../client/process/output-collector.ts';
import type { Command } from '../client/process/program-options.ts';
import { type RunOptions, runProgram } from '../client/process/run.ts';
import { type SpawnOptions, spawnProgram } from '../client/process/spawn.ts';
import { RemoteDiscovery } from '../client/remote-discovery.ts';
import type { AttachOptions, SharedProcesses } from '../client/sharing.ts';
import { nativePathOfText } from '../files/native-path.ts';
import { uriFromPath } from '../files/path-uri.ts';
import type { ServerSettings } from '../server/config/config.ts';
import type { ConnectionState, Environment, EnvironmentStatus, Readiness } from './environment.ts';
import { fetchOver } from './fetch.ts';
import { LocalConnection } from './local-connection.ts';
import { LOCAL_ENVIRONMENT_ID } from './provider.ts';
import { CLIENT_SETTINGS, type ClientSettings } from './remote/create-connector.ts';
import { LazyBackend } from './remote/lazy-backend.ts';
import { lazyFileSystem } from './remote/lazy-file-system.ts';
import { LazyHttp } from './remote/lazy-http.ts';
import { LazyProcesses } from './remote/lazy-processes.ts';
import { LazyRecordings } from './remote/lazy-recordings.ts';

/**
 * This machine as an environment: a server in this process and a client of it. It is ready until it is disposed of; the first use
 * starts the server. Idle, it does not keep Node running. Its programs do, like those of `node:child_process`: they cannot outlive this
 * process.
 */
export class LocalEnvironment implements Environment {
  readonly id = LOCAL_ENVIRONMENT_ID;
  readonly kind = 'local';
  readonly requiredSkills: readonly string[] = [];
  readonly startupFinished = true;
  readonly backend: LocalBackend;
  readonly processes: SharedProcesses;
  readonly recordings: LazyRecordings;
  readonly files: NodeFiles;
  readonly fileSystem: ExecutorFileSystem;
  readonly passiveFileSystem: ExecutorFileSystem;
  readonly discovery: RemoteDiscovery;
  readonly http: LazyHttp;
  readonly fetch;
  readonly #connection: LocalConnection;
  readonly #listeners = new Listeners<[ConnectionState]>('environment.watchConnection');
  #disposed = false;

  /**
   * `server` overrides the defaults of the server. It has no listener, so settings of connections, access and records have no
   * effect. Throws ConfigError for an unknown name or an invalid value of
   * these, and ClientError of the kind `config` for an unknown name in `settings`.
   */
  constructor(settings?: ClientSettings, server?: ServerSettings) {
    expectOptions('LocalEnvironment', settings, CLIENT_SETTINGS, 'config');
    this.#connection = new LocalConnection(settings, server);
    this.backend = new LocalBackend(this.#connection);
    this.processes = new LazyProcesses(this.#connection);
    this.recordings = new LazyRecordings(this.#connection);
    this.fileSystem = lazyFileSystem(this.#connection);
    this.passiveFileSystem = this.fileSystem;
    this.files = new NodeFiles(filesOver(this.fileSystem, this.backend));
    this.discovery = new RemoteDiscovery(this.#connection);
    this.http = new LazyHttp(this.#connection);
    this.fetch = fetchOver(this.http);
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
    return this.#disposed ? { ready: false, error: closedError() } : { ready: true };
  }

  get connection(): ConnectionState {
    return this.#disposed
      ? { connected: false, reason: closedError().message }
      : { connected: true, reason: null };
  }

  watchConnection(listener: (state: ConnectionState) => void): () => void {
    const stop = this.#listeners.add(listener);
    notify('environment.watchConnection', listener, this.connection);
    return stop;
  }

  /** Asked for each time: the program may change its working directory. */
  async info(options?: CallOptions): Promise<EnvironmentInfo> {
    return this.#connection.call('environment/info', null, { timeoutMs: INFO_TIMEOUT_MS, ...options });
  }

  async status(): Promise<EnvironmentStatus> {
    return this.#disposed
      ? { status: 'disconnected', error: closedError().message }
      : { status: 'ready', error: null };
  }

  startConnecting(): void {}

  /** Loads the server in the background. */
  startForUse(): void {
    this.#connection.prepare();
  }

  async waitUntilReady(): Promise<void> {
    if (this.#disposed) throw closedError();
  }

  restart(): Promise<void> {
    return this.waitUntilReady();
  }

  hold(): () => void {
    return () => {};
  }

  /** Kills the processes that are left. */
  async dispose(): Promise<void> {
    if (this.#disposed) return;
    this.#disposed = true;
    this.#listeners.emit(this.connection);
    await this.#connection.dispose();
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.dispose();
  }
}

/** Runs programs on this machine. */
class LocalBackend extends LazyBackend {
  readonly #connection: LocalConnection;

  constructor(connection: LocalConnection) {
    super(connection);
    this.#connection = connection;
  }

  /** Whether programs can run on a terminal here; when not, why. */
  get pty(): LocalConnection['pty'] {
    return this.#connection.pty;
  }

  /** Rejects a detached program: all programs of this environment end with this process. */
  override async start(params: StartParams, options?: StartOptions): Promise<ExecProcess> {
    if (params.lifetime?.type === 'detached') {
      throw new ClientError(
        'unsupported',
        'a local environment cannot start detached programs: they end with it',
        {
          hint: 'start a server with `exec-server`, and connect to it',
        },
      );
    }
    return await super.start(params, options);
  }

  /** The working directory of this process, a `file:` URI; null when it was removed. */
  override async defaultCwd(): Promise<string | null> {
    try {
      return uriFromPath(nativePathOfText(process.cwd()));
    } catch {
      return null;
    }
  }
}

function closedError(): ClientError {
  return new ClientError('closed', `environment '${LOCAL_ENVIRONMENT_ID}' was closed`, {
    hint: 'open another one',
  });
}
