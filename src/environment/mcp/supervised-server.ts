import { sleep, unlessAborted } from '../../base/abort.ts';
import { Backoff } from '../../base/backoff.ts';
import { withTimeout } from '../../base/with-timeout.ts';
import { ClientError } from '../../client/errors.ts';
import type { Environment } from '../environment.ts';
import {
  MCP_RESTART_FIRST_DELAY_MS,
  MCP_RESTART_MAX_DELAY_MS,
  MCP_RESTARTS,
  MCP_RETRY_MS,
  MCP_STABLE_MS,
  MCP_START_TIMEOUT_MS,
} from '../limits.ts';
import { type McpServer, openTransportIn } from './open-transport.ts';
import type { McpTransport } from './transport.ts';
import { WatchedTransport } from './watched-transport.ts';

/** The name of a plugin's MCP server. */
export interface McpServerName {
  /** The id of the plugin's capability root. */
  readonly plugin: string;
  readonly name: string;
  readonly environmentId: string;
}

/** Connects a client to a started server. It rejects when the server does not answer. */
export type McpConnect<C> = (transport: McpTransport, server: McpServerName) => Promise<C>;

export type McpServerState<C> =
  /** `error` is that of the last attempt, if there was one. */
  | { readonly state: 'starting'; readonly client: null; readonly error: ClientError | null }
  | { readonly state: 'ready'; readonly client: C; readonly error: null }
  | { readonly state: 'failed'; readonly client: null; readonly error: ClientError };

/**
 * Runs one MCP server through one handle, and restarts it with growing delays when it ends. After too many restarts in a row it
 * has failed.
 */
export class SupervisedServer<C> {
  readonly name: McpServerName;
  readonly environment: Environment;
  readonly #server: McpServer;
  readonly #connect: McpConnect<C>;
  readonly #stop = new AbortController();
  readonly #ended: Promise<void>;
  #state: McpServerState<C> = STARTING;
  #attempt: Attempt = newAttempt();
  #failedAtMs = 0;

  /** The start waits for `predecessor`: two servers with the same settings must not run at the same time. */
  constructor(
    name: McpServerName,
    environment: Environment,
    server: McpServer,
    connect: McpConnect<C>,
    predecessor: Promise<void> = Promise.resolve(),
  ) {
    this.name = name;
    this.environment = environment;
    this.#server = server;
    this.#connect = connect;
    this.#ended = predecessor.then(() => this.#run());
  }

  get state(): McpServerState<C> {
    return this.#state;
  }

  /** Resolves when the attempt under way is successful or has failed. Never rejects. */
  get settled(): Promise<void> {
    return this.#attempt.settled;
  }

  /** Whether it failed so long ago that it is worth another try. */
  get mayRetry(): boolean {
    return this.#state.state === 'failed' && performance.now() - this.#failedAtMs >= MCP_RETRY_MS;
  }

  /** Whether it runs this server through this handle. */
  matches(environment: Environment, server: McpServer): boolean {
    return this.environment === environment && JSON.stringify(this.#server) === JSON.stringify(server);
  }

  /** Ends the server. Resolves after its exit, or after the time limit when the executor does not answer. */
  close(): Promise<void> {
    this.#stop.abort(new ClientError('closed', `${this.#title} was closed`));
    return this.#ended;
  }

  async #run(): Promise<void> {
    const { signal } = this.#stop;
    const backoff = new Backoff(MCP_RESTART_FIRST_DELAY_MS, MCP_RESTART_MAX_DELAY_MS);
    let restarts = 0;
    while (!signal.aborted) {
      const startedAtMs = performance.now();
      const error = await this.#serve();
      if (performance.now() - startedAtMs >= MCP_STABLE_MS) {
        restarts = 0;
        backoff.reset();
      }
      const isFinal = signal.aborted || error.kind === 'config';
      const failed = isFinal || restarts++ >= MCP_RESTARTS;
      this.#failedAtMs = performance.now();
      this.#state = { state: failed ? 'failed' : 'starting', client: null, error };
      this.#attempt.settle();
      if (failed) return;
      await sleep(backoff.next(), signal);
      this.#attempt = newAttempt();
    }
    this.#attempt.settle();
  }

  /** Runs the server once. Returns the reason of its end. */
  async #serve(): Promise<ClientError> {
    const { signal } = this.#stop;
    let transport: WatchedTransport | null = null;
    try {
      transport = new WatchedTransport(await openTransportIn(this.environment, this.#server));
      const client = await withTimeout(this.#connect(transport, this.name), MCP_START_TIMEOUT_MS, {
        signal,
        onTimeout: () => {
          throw new ClientError('timeout', `it did not answer within ${MCP_START_TIMEOUT_MS / 1000} s`);
        },
      });
      this.#state = { state: 'ready', client, error: null };
      this.#attempt.settle();
      throw await unlessAborted(transport.ended, signal);
    } catch (reason) {
      const error = this.#explain(transport?.endReason ?? reason);
      this.#state = { state: 'starting', client: null, error };
      await transport?.close().catch(() => {});
      return error;
    }
  }

  get #title(): string {
    const { plugin, name, environmentId } = this.name;
    return `MCP server '${name}' of plugin '${plugin}' in environment '${environmentId}'`;
  }

  #explain(reason: unknown): ClientError {
    const kind = reason instanceof ClientError ? reason.kind : 'server';
    const message = reason instanceof Error ? reason.message : String(reason);
    return new ClientError(kind, `${this.#title}: ${message}`, { cause: reason });
  }
}

const STARTING = { state: 'starting', client: null, error: null } as const;

interface Attempt {
  readonly settled: Promise<void>;
  readonly settle: () => void;
}

function newAttempt(): Attempt {
  let settle = () => {};
  const settled = new Promise<void>((resolve) => {
    settle = resolve;
  });
  return { settled, settle };
}
