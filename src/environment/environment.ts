import type {
  CallOptions,
  CapabilityDiscovery,
  EnvironmentInfo,
  ExecBackend,
  ExecProcess,
  ExecutorFileSystem,
  ExecutorHttp,
} from '../client/backend.ts';
import type { ClientError } from '../client/errors.ts';
import type { NodeFiles } from '../client/files/node-files.ts';
import type { RunResult } from '../client/process/output-collector.ts';
import type { Command } from '../client/process/program-options.ts';
import type { RunOptions } from '../client/process/run.ts';
import type { SpawnOptions } from '../client/process/spawn.ts';
import type { Recordings } from '../client/recordings.ts';
import type { AttachOptions, SharedProcesses } from '../client/sharing.ts';
import type { ExecutorFetch } from './fetch.ts';

/** Whether an environment can be used now. Null means unknown: it is unused, starting or recovering. */
export type Readiness =
  | { readonly ready: true }
  | { readonly ready: false; readonly error: ClientError }
  | null;

/** The result of a status check. `error` is the reason for a disconnection. */
export interface EnvironmentStatus {
  readonly status: 'ready' | 'pending' | 'disconnected';
  readonly error: string | null;
}

/** Whether the environment is connected; when not, the reason. */
export interface ConnectionState {
  readonly connected: boolean;
  readonly reason: string | null;
}

export interface InfoOptions extends CallOptions {
  /** Asks the executor again instead of using the cached description. */
  readonly fresh?: boolean;
}

/**
 * A machine, container or other host with processes and files. The id is permanent; the object is a handle. Another handle may
 * replace it under the same id, and callers that have the old handle keep using it.
 *
 * The first use connects. Every use waits for the connection within the limits of its options.
 */
export interface Environment {
  readonly id: string;
  readonly kind: 'local' | 'remote';
  readonly backend: ExecBackend;
  /** Lists the processes of the executor and attaches to them, whichever client started them. */
  readonly processes: SharedProcesses;
  /** Lists and reads the recordings of processes. */
  readonly recordings: Pick<Recordings, 'list' | 'read'>;
  /** Attaches to a running or ended process by its reference, or else by its name. */
  attach(refOrName: string, options?: AttachOptions): Promise<ExecProcess>;
  /** Returns {@link backend}. Code written for codex uses this name. */
  getExecBackend(): ExecBackend;
  /** Runs a command to its end. A text runs in the login shell. See `run` of the client. */
  run(command: Command, options?: RunOptions): Promise<RunResult>;
  /** Starts a command and returns its process. See `spawn` of the client. */
  spawn(command: Command, options?: SpawnOptions): Promise<ExecProcess>;
  /** The files of the environment. Relative paths are relative to its default directory. */
  readonly files: NodeFiles;
  /** The same files as operations of the protocol, with `file:` URIs. */
  readonly fileSystem: ExecutorFileSystem;
  /** The same without side effects on the connection: an operation never connects, and fails immediately when disconnected. */
  readonly passiveFileSystem: ExecutorFileSystem;
  readonly discovery: CapabilityDiscovery;
  /** Sends HTTP requests from the environment. */
  readonly http: ExecutorHttp;
  /** The same as a `fetch` function. */
  readonly fetch: ExecutorFetch;
  /** Skills that the configuration requires here. Without them the environment is not ready. */
  readonly requiredSkills: readonly string[];
  /** Whether the first attempt to connect has ended, with or without success. */
  readonly startupFinished: boolean;
  readonly readiness: Readiness;
  readonly connection: ConnectionState;
  /** Calls the listener with the connection state now and after every change. Returns a function that removes the listener. */
  watchConnection(listener: (state: ConnectionState) => void): () => void;
  /** The executor's description of itself, requested once per connection. */
  info(options?: InfoOptions): Promise<EnvironmentInfo>;
  /** Checks the status without connecting or waiting for a connection. A connected executor is probed. */
  status(): Promise<EnvironmentStatus>;
  /** Starts the first attempt in the background where connecting is cheap. A server on stdio is started by its first use. */
  startConnecting(): void;
  /** Connects in the background, also where that starts a program, and retries after a transient failure. */
  startForUse(): void;
  /** Connects if necessary. Rejects when that fails; the next call retries after a transient failure. */
  waitUntilReady(options?: CallOptions): Promise<void>;
  /** Drops the connection, if any, and opens a new one. It also restarts an executor on stdio that has exited. */
  restart(options?: CallOptions): Promise<void>;
  /**
   * Keeps the connection of a replaced handle open. Without a hold it is closed as soon as no call and no process uses it, and the
   * next use opens it again. Returns a function that releases the hold.
   */
  hold(): () => void;
  /** Closes the connection and rejects everything that waits for it. The environment cannot be used afterwards. */
  dispose(): Promise<void>;
  /** The same as {@link dispose}. */
  [Symbol.asyncDispose](): Promise<void>;
}
