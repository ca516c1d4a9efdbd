import type { ExecBackend, ExecutorFileSystem, ExecutorHttp } from '../../client/backend.ts';
import type { ClientCore } from '../../client/client-core.ts';

/** The part of a client that an environment uses. The states `failed` and `closed` are final. */
export type ClientLike = Pick<
  ClientCore,
  'state' | 'failure' | 'environmentInfo' | 'onStateChange' | 'processes' | 'recordings' | 'call' | 'close'
>;

/** A client and its services. */
export interface Connection {
  readonly client: ClientLike;
  readonly backend: ExecBackend;
  readonly files: ExecutorFileSystem;
  readonly http: ExecutorHttp;
}

/** Opens connections to one executor. */
export interface Connector {
  /** Opens a connection with a new session. It stops soon after `signal` aborts. */
  connect(signal: AbortSignal): Promise<Connection>;
  /** Whether the next use may replace a failed connection. Otherwise only a restart does. */
  readonly reconnects: boolean;
  /** Whether connecting is cheap enough to do before the first use. */
  readonly eager: boolean;
  /** How long to retry an executor that was connected before. */
  readonly retryWindowMs: number;
  /** Whether Node needs a timer to stay alive while the connection is in use, because the connection has no socket. */
  readonly inMemory?: boolean;
  /** Called when the environment is disposed of, in place of closing the client. */
  dispose?(client: ClientLike | null): Promise<void>;
}
