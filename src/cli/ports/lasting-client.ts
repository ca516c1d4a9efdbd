import type { Duplex } from 'node:stream';
import { sleep, unlessAborted } from '../../base/abort.ts';
import { Backoff, shorteningJitter } from '../../base/backoff.ts';
import { Listeners } from '../../base/listeners.ts';
import type { CallOptions } from '../../client/backend.ts';
import type { ExecServerClient } from '../../client/client.ts';
import type { ClientState } from '../../client/connection/client-status.ts';
import { ClientError } from '../../client/errors.ts';
import type { ForwardClient } from '../../client/tcp/port-forward.ts';
import type { TcpTarget } from '../../client/tcp/tcp-streams.ts';
import { RunError } from '../failures.ts';
import { FIRST_RETRY_MS, GOOD_CONNECTION_MS, MAX_RETRY_MS, MAX_WAITING_CONNECTIONS } from './limits.ts';

interface LastingOptions {
  /** Connects once. Rejects with an error for people. */
  connect(signal: AbortSignal): Promise<ExecServerClient>;
  /** How long to try after a loss; null for no limit. */
  readonly giveUpAfterMs: number | null;
  /** Called after an attempt to reconnect has failed. */
  onRetry(error: Error): void;
}

/**
 * A client that is replaced whenever its connection is lost, for what needs no session: streams and watches end with their connection
 * anyway. So it also survives the restart of the server, which ends all sessions.
 */
export class LastingClient implements ForwardClient {
  readonly #options: LastingOptions;
  readonly #states = new Listeners<[ClientState, Error | null]>('the connection');
  readonly #closing = new AbortController();
  readonly #backoff = new Backoff(FIRST_RETRY_MS, MAX_RETRY_MS, shorteningJitter);
  /** Rejects when the server could not be reached again in time. */
  readonly ended: Promise<never>;
  readonly #end: (error: Error) => void;
  #state: ClientState = 'connected';
  #client: ExecServerClient;
  #connectedAt = 0;
  /** Resolves with the next client. Connections that arrive during a loss share it. */
  #next: Promise<ExecServerClient> | null = null;
  #waiting = 0;

  private constructor(client: ExecServerClient, options: LastingOptions) {
    this.#options = options;
    this.#client = client;
    let end: (error: Error) => void = () => {};
    this.ended = new Promise((_, reject) => {
      end = reject;
    });
    this.ended.catch(() => {});
    this.#end = end;
    this.#use(client);
  }

  /** Connects for the first time. Rejects with the error of `connect`. */
  static async open(options: LastingOptions, signal: AbortSignal): Promise<LastingClient> {
    return new LastingClient(await options.connect(signal), options);
  }

  get state(): ClientState {
    return this.#state;
  }

  /** The client of now. It may be lost. */
  get current(): ExecServerClient {
    return this.#client;
  }

  /** Calls the listener after every change of {@link state}, with the reason of a loss. Returns a function that removes it. */
  onStateChange(listener: (state: ClientState, reason: Error | null) => void): () => void {
    return this.#states.add(listener);
  }

  /** Opens a stream. Waits while the server is being reached again. Rejects with ClientError. */
  async connectTcp(target: TcpTarget, options: CallOptions = {}): Promise<Duplex> {
    const client = await this.#usable(options.signal ?? this.#closing.signal);
    try {
      return await client.connectTcp(target, options);
    } catch (error) {
      if (client.state === 'connected' || this.#state === 'closed' || this.#state === 'failed') throw error;
      throw new ClientError('brokenPipe', 'the connection was lost', { cause: error });
    }
  }

  async close(): Promise<void> {
    this.#closing.abort();
    this.#change('closed', null);
    await this.#client.close();
  }

  async #usable(signal: AbortSignal): Promise<ExecServerClient> {
    if (this.#next === null) return this.#client;
    if (this.#waiting >= MAX_WAITING_CONNECTIONS) {
      throw new ClientError('overloaded', `${this.#waiting} connections wait for the server, the maximum`);
    }
    this.#waiting++;
    try {
      return await unlessAborted(this.#next, signal);
    } finally {
      this.#waiting--;
    }
  }

  #use(client: ExecServerClient): void {
    this.#client = client;
    this.#connectedAt = performance.now();
    const lost = () => {
      unsubscribe();
      const { failure } = client;
      // Its own recovery would only find out that the session is gone.
      void client.close();
      if (this.#closing.signal.aborted) return;
      this.#next = this.#reconnect();
      this.#next.catch(() => {});
      this.#change('recovering', failure);
    };
    const unsubscribe = client.onStateChange((state) => {
      if (state === 'recovering' || state === 'failed') lost();
    });
    if (client.state !== 'connected') lost();
  }

  async #reconnect(): Promise<ExecServerClient> {
    const { connect, giveUpAfterMs, onRetry } = this.#options;
    const lostAt = performance.now();
    const isGood = lostAt - this.#connectedAt >= GOOD_CONNECTION_MS;
    if (isGood) this.#backoff.reset();
    for (let delayMs = isGood ? 0 : this.#backoff.next(); ; delayMs = this.#backoff.next()) {
      await sleep(delayMs, this.#closing.signal);
      if (this.#closing.signal.aborted) throw closed();
      try {
        const client = await connect(this.#closing.signal);
        if (this.#closing.signal.aborted) {
          await client.close();
          throw closed();
        }
        this.#next = null;
        this.#use(client);
        if (this.#next === null) this.#change('connected', null);
        return client;
      } catch (error) {
        if (this.#closing.signal.aborted) throw closed();
        if (giveUpAfterMs !== null && performance.now() - lostAt >= giveUpAfterMs) {
          throw this.#giveUp(error as Error);
        }
        onRetry(error as Error);
      }
    }
  }

  #giveUp(error: Error): ClientError {
    const message = `the connection was lost and could not be restored in time: ${error.message}`;
    this.#end(new RunError(message, { kind: 'disconnected' }));
    this.#change('failed', error);
    return new ClientError('disconnected', message, { cause: error });
  }

  #change(state: ClientState, reason: Error | null): void {
    if (state === this.#state || this.#state === 'closed') return;
    this.#state = state;
    this.#states.emit(state, reason);
  }
}

function closed(): ClientError {
  return new ClientError('closed', 'the connection is closed');
}
