import { Listeners, notify } from '../../base/listeners.ts';
import type { CallOptions, ExecProcess } from '../../client/backend.ts';
import { Deadline } from '../../client/connection/call-limit.ts';
import { ClientError } from '../../client/errors.ts';
import { MAX_TIMER_MS } from '../../client/limits.ts';

import type { ConnectionState, Readiness } from '../environment.ts';
import { connectWithin, toClientError } from './attempt.ts';
import type { ClientLike, Connection, Connector } from './connection.ts';

/** A connection in use. `options` are the caller's options with the remaining time. */
export interface Lease {
  readonly connection: Connection;
  readonly options: CallOptions;
  release(): void;
}

/**
 * The connection of one environment. The first use opens it and all uses share it. The next use after a final failure opens another
 * one, where the transport allows it. Concurrent callers wait for the same attempt.
 *
 * A failure of the first attempt is final when it is not transient or the transport cannot reconnect; then only {@link restart}
 * helps. After later failures the next use retries. An executor that was connected before is retried for a while; otherwise there
 * is a single attempt.
 */
export class LazyConnection {
  readonly #name: string;
  readonly #connector: Connector;
  readonly #listeners = new Listeners<[ConnectionState]>('environment.watchConnection');
  #phase: Phase = { type: 'idle' };
  #published: ConnectionState = NOT_STARTED;
  #startupFinished = false;
  #wasConnected = false;
  #retired = false;
  #users = 0;
  /** The users that keep Node running. */
  #waiting = 0;
  #keepAlive: NodeJS.Timeout | undefined;

  /** `name` is the environment's name in messages. */
  constructor(name: string, connector: Connector) {
    this.#name = name;
    this.#connector = connector;
  }

  get startupFinished(): boolean {
    return this.#startupFinished;
  }

  /** Whether an attempt was made or is under way. */
  get started(): boolean {
    return this.#phase.type !== 'idle' || this.#startupFinished;
  }

  get state(): ConnectionState {
    return this.#published;
  }

  get readiness(): Readiness {
    const phase = this.#phase;
    if (phase.type === 'idle' || phase.type === 'connecting') return null;
    if (phase.type !== 'up') return { ready: false, error: phase.error };
    const { state } = phase.connection.client;
    if (state === 'recovering') return null;
    return state === 'connected' ? { ready: true } : { ready: false, error: endOf(phase.connection) };
  }

  watch(listener: (state: ConnectionState) => void): () => void {
    const stop = this.#listeners.add(listener);
    notify('environment.watchConnection', listener, this.#published);
    return stop;
  }

  /** Connects if necessary. Until the lease is released, the connection is not closed as unused. */
  async lease(options?: CallOptions): Promise<Lease> {
    const deadline = new Deadline(options);
    deadline.check(`connecting to ${this.#name}`);
    const release = this.hold();
    try {
      const connection = await deadline.wait(`connecting to ${this.#name}`, this.#get());
      return { connection, options: deadline.remaining, release };
    } catch (error) {
      release();
      throw error;
    }
  }

  /** Calls a method of the executor. Connects if necessary. */
  readonly call: ClientLike['call'] = async (method, params, options) => {
    const lease = await this.lease(options);
    try {
      return await lease.connection.client.call(method, params, lease.options);
    } finally {
      lease.release();
    }
  };

  /** Like {@link lease}, but never connects: throws immediately when there is no working connection. */
  leaseNow(): Lease {
    const connection = this.connected;
    if (connection !== null) return { connection, options: {}, release: this.hold() };
    const { readiness } = this;
    if (readiness?.ready === false) throw readiness.error;
    throw new ClientError('disconnected', `${this.#name} is not ready: ${this.#published.reason}`, {
      hint: 'call waitUntilReady() to connect',
      retryable: true,
    });
  }

  /** The connection if it works now; otherwise null. */
  get connected(): Connection | null {
    if (this.#phase.type !== 'up') return null;
    return this.#phase.connection.client.state === 'connected' ? this.#phase.connection : null;
  }

  /** The newest connection in any state; null if the last attempt failed or there was none. */
  get current(): Connection | null {
    return this.#phase.type === 'up' ? this.#phase.connection : null;
  }

  /** Starts the first attempt in the background. {@link state} shows its result. */
  start(): void {
    if (!this.started) void this.#attempt();
  }

  /** Connects in the background, like a use. */
  prepare(): void {
    this.#get().catch(() => {});
  }

  /** Makes the first use fail with `error`. It has no effect after the first attempt. */
  refuse(error: ClientError): void {
    if (this.started) return;
    this.#startupFinished = true;
    this.#enter({ type: 'down', error, final: true });
  }

  /** Replaces the connection by a new one. It joins an attempt that is under way. */
  restart(): Promise<Connection> {
    if (this.#phase.type === 'connecting' || this.#phase.type === 'disposed') return this.#get();
    this.#closeClient();
    return this.#attempt();
  }

  /** Marks the connection as in use until the returned function is called. A server in this process keeps Node running meanwhile. */
  hold(): () => void {
    const release = this.#use();
    if (this.#connector.inMemory) this.#keepAlive ??= setInterval(() => {}, MAX_TIMER_MS);
    this.#waiting++;
    let held = true;
    return () => {
      if (!held) return;
      held = false;
      this.#waiting--;
      if (this.#waiting === 0) this.#letExit();
      release();
    };
  }

  #use(): () => void {
    this.#users++;
    let used = true;
    return () => {
      if (!used) return;
      used = false;
      this.#users--;
      this.#closeUnused();
    };
  }

  /** Lets Node exit: nothing waits for the connection. */
  #letExit(): void {
    clearInterval(this.#keepAlive);
    this.#keepAlive = undefined;
  }

  /** Marks the connection as in use until the process is closed or lost. Only what waits for the process keeps Node running. */
  holdFor(process: ExecProcess): void {
    const release = this.#use();
    const check = () => {
      if (!process.state.closed && process.state.failure === null) return;
      stop();
      release();
    };
    const stop = process.onChange(check, { unref: true });
    check();
  }

  /** From now on an unused connection is closed. */
  retire(): void {
    this.#retired = true;
    this.#closeUnused();
  }

  async dispose(): Promise<void> {
    if (this.#phase.type === 'disposed') return;
    const error = new ClientError('closed', `${this.#name} was closed`);
    const client = this.#phase.type === 'up' ? this.#phase.connection.client : null;
    if (this.#phase.type === 'connecting') this.#phase.abort.abort(error);
    this.#enter({ type: 'disposed', error });
    this.#letExit();
    await (this.#connector.dispose?.(client) ?? client?.close());
  }

  #get(): Promise<Connection> {
    const phase = this.#phase;
    switch (phase.type) {
      case 'idle':
        return this.#attempt();
      case 'connecting':
        return phase.attempt;
      case 'up': {
        const { state } = phase.connection.client;
        if (state === 'connected' || state === 'recovering') return Promise.resolve(phase.connection);
        return this.#connector.reconnects ? this.#attempt() : Promise.reject(endOf(phase.connection));
      }
      case 'down':
        return phase.final ? Promise.reject(phase.error) : this.#attempt();
      case 'disposed':
        return Promise.reject(phase.error);
    }
  }

  #attempt(): Promise<Connection> {
    const abort = new AbortController();
    const windowMs = this.#wasConnected ? this.#connector.retryWindowMs : 0;
    const attempt = connectWithin(this.#connector, windowMs, abort.signal).then(
      (connection) => this.#succeed(abort, connection),
      (error: unknown) => this.#fail(abort, toClientError(error)),
    );
    // Callers that wait handle the failure; there may be none.
    attempt.catch(() => {});
    const reason = this.#phase.type === 'idle' ? null : this.#published.reason;
    this.#enter({ type: 'connecting', attempt, abort, reason });
    return attempt;
  }

  #succeed(abort: AbortController, connection: Connection): Connection {
    // The attempt was aborted after its success.
    if (!this.#isCurrent(abort)) {
      void connection.client.close().catch(() => {});
      throw toClientError(abort.signal.reason);
    }
    this.#startupFinished = true;
    this.#wasConnected = true;
    const stop = connection.client.onStateChange(() => this.#publish());
    this.#enter({ type: 'up', connection, stop });
    this.#closeUnused();
    return connection;
  }

  #fail(abort: AbortController, error: ClientError): never {
    if (this.#isCurrent(abort)) {
      const final = !this.#connector.reconnects || (!this.#startupFinished && !error.retryable);
      this.#startupFinished = true;
      this.#enter({ type: 'down', error, final });
    }
    throw error;
  }

  #isCurrent(abort: AbortController): boolean {
    return this.#phase.type === 'connecting' && this.#phase.abort === abort;
  }

  #closeUnused(): void {
    if (!this.#retired || this.#users > 0) return;
    if (this.#phase.type === 'connecting') {
      const { abort } = this.#phase;
      this.#enter({ type: 'idle' });
      abort.abort(new ClientError('closed', `${this.#name} was replaced before its first use`));
    } else if (this.#phase.type === 'up') {
      this.#closeClient();
      this.#enter({ type: 'idle' });
    }
  }

  #closeClient(): void {
    if (this.#phase.type !== 'up') return;
    this.#phase.stop();
    void this.#phase.connection.client.close().catch(() => {});
  }

  #enter(phase: Phase): void {
    if (this.#phase.type === 'up') this.#phase.stop();
    this.#phase = phase;
    this.#publish();
  }

  #publish(): void {
    const next = this.#describe();
    if (next.connected === this.#published.connected && next.reason === this.#published.reason) return;
    this.#published = next;
    this.#listeners.emit(next);
  }

  #describe(): ConnectionState {
    const phase = this.#phase;
    switch (phase.type) {
      case 'idle':
        return this.#startupFinished ? NOT_IN_USE : NOT_STARTED;
      case 'connecting':
        return { connected: false, reason: phase.reason ?? 'it is connecting' };
      case 'down':
      case 'disposed':
        return { connected: false, reason: phase.error.message };
      case 'up': {
        const { state, failure } = phase.connection.client;
        if (state === 'connected') return { connected: true, reason: null };
        if (state !== 'recovering') return { connected: false, reason: endOf(phase.connection).message };
        const cause = failure === null ? '' : `: ${failure.message}`;
        return { connected: false, reason: `${this.#name} is recovering${cause}` };
      }
    }
  }
}

type Phase =
  | { readonly type: 'idle' }
  /** `reason` is that of the last failure, if any. */
  | {
      readonly type: 'connecting';
      readonly attempt: Promise<Connection>;
      readonly abort: AbortController;
      readonly reason: string | null;
    }
  | { readonly type: 'up'; readonly connection: Connection; readonly stop: () => void }
  | { readonly type: 'down'; readonly error: ClientError; readonly final: boolean }
  | { readonly type: 'disposed'; readonly error: ClientError };

const NOT_STARTED: ConnectionState = { connected: false, reason: 'it was not started' };
const NOT_IN_USE: ConnectionState = { connected: false, reason: 'it was replaced and is unused' };

function endOf({ client }: Connection): ClientError {
  return client.failure ?? new ClientError('disconnected', 'the connection has ended');
}
