import type {
  CallOptions,
  CapabilityDiscovery,
  EnvironmentInfo,
  ExecBackend,
  ExecutorFileSystem,
  ExecutorHttp,
} from '../client/backend.ts';
import type { ClientError } from '../client/errors.ts';
import type { ExecutorFetch } from './fetch.ts';

/** Whether an environment can be used now. Null stands for "not known yet": it is starting, recovering, or nobody asked for it. */
export type Readiness =
  | { readonly ready: true }
  | { readonly ready: false; readonly error: ClientError }
  | null;

/** What an environment is found to be when somebody looks. `error` says why it is disconnected. */
export interface EnvironmentStatus {
  readonly status: 'ready' | 'pending' | 'disconnected';
  readonly error: string | null;
}

/** Whether there is a connection, and if not, why. */
export interface ConnectionState {
  readonly connected: boolean;
  readonly reason: string | null;
}

export interface InfoOptions extends CallOptions {
  /** Asks the executor even though it has told before. */
  readonly fresh?: boolean;
}

/**
 * A place where processes run and files lie. The id names the place for good; the object is one way to reach it, and another may
 * take its place under the same id. Whoever holds this one goes on with this one.
 *
 * Nothing has to be started: the first use connects, and every use waits for the connection as long as its options allow.
 */
export interface Environment {
  readonly id: string;
  readonly kind: 'local' | 'remote';
  readonly backend: ExecBackend;
  readonly files: ExecutorFileSystem;
  /** The same files for onlookers: an operation fails at once when there is no connection and never opens one. */
  readonly passiveFiles: ExecutorFileSystem;
  readonly discovery: CapabilityDiscovery;
  /** Asks web servers from where the environment is. */
  readonly http: ExecutorHttp;
  /** The same in the shape of the web's `fetch`. */
  readonly fetch: ExecutorFetch;
  /** Skills that the configuration wants here. */
  readonly requiredSkills: readonly string[];
  /** Whether the first attempt to connect is over, whatever came of it. */
  readonly startupFinished: boolean;
  readonly readiness: Readiness;
  readonly connection: ConnectionState;
  /** Tells the connection's state now, and again whenever it or its reason changes. Returns what ends it. */
  watchConnection(listener: (state: ConnectionState) => void): () => void;
  /** What the executor says of itself; asked for once per connection. */
  info(options?: InfoOptions): Promise<EnvironmentInfo>;
  /** Looks without starting, waiting for a connection or reconnecting. A connected executor is asked for a sign of life. */
  status(): Promise<EnvironmentStatus>;
  /** Makes the first attempt in the background where that costs little; a server on stdio waits for its first use. */
  startConnecting(): void;
  /** Connects in the background, whatever has to be started for it, and again after a failure that may pass. */
  startForUse(): void;
  /** Connects if need be. Rejects when that fails; a failure that may pass is tried again by the next call. */
  waitUntilReady(options?: CallOptions): Promise<void>;
  /** Drops the connection, if any, and opens a new one. It also revives an executor on stdio that has ended. */
  restart(options?: CallOptions): Promise<void>;
  /**
   * Keeps the connection of a handle that was replaced. Without a hold it is closed as soon as no call and no process uses it,
   * and opened again by the next use. Returns what lets go.
   */
  hold(): () => void;
  /** Ends the connection and everything that waits for it; the environment cannot be used any more. */
  dispose(): Promise<void>;
}
