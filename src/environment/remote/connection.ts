import type { ExecBackend, ExecutorFileSystem, ExecutorHttp } from '../../client/backend.ts';
import type { ClientCore } from '../../client/client-core.ts';

/** What an environment uses of a client. One that has `failed` or is `closed` stays so. */
export type ClientLike = Pick<
  ClientCore,
  'state' | 'failure' | 'environmentInfo' | 'onStateChange' | 'call' | 'close'
>;

/** A client and the services on top of it. */
export interface Connection {
  readonly client: ClientLike;
  readonly backend: ExecBackend;
  readonly files: ExecutorFileSystem;
  readonly http: ExecutorHttp;
}

/** Opens connections to one executor. */
export interface Connector {
  /** Opens a connection with a new session. It ends soon after `signal` aborts. */
  connect(signal: AbortSignal): Promise<Connection>;
  /** Whether a failed connection may be followed by another without anybody asking for it by name. */
  readonly reconnects: boolean;
  /** Whether connecting costs so little that it is done before the first use. */
  readonly eager: boolean;
  /** How long to go on trying to reach an executor that was there before. */
  readonly retryWindowMs: number;
  /** Whether Node needs a timer to stay alive while the connection is in use, because the connection has no socket. */
  readonly inMemory?: boolean;
  /** Called when the environment is disposed of, in place of closing the client. */
  dispose?(client: ClientLike | null): Promise<void>;
}
