import { notify } from '../../base/listeners.ts';
import type { CallParamsOf, Method, NotificationParamsOf, ResultOf } from '../../protocol/registry.ts';
import type { CallOptions } from '../backend.ts';
import type { ClientState } from '../connection/client-status.ts';
import { expectFunction } from '../connection/option-checks.ts';
import type { Capabilities } from '../connection/server-messages.ts';
import { ClientError } from '../errors.ts';
import { requireTcp } from './tcp-streams.ts';

/** A TCP port that a program on the server listens on. */
export type WatchedPort = NotificationParamsOf<'ports/changed'>['ports'][number];

/** Called with all ports. */
export type PortListener = (ports: readonly WatchedPort[]) => void;

/** The part of a client that a port watch needs. */
interface PortWatchClient {
  readonly capabilities: Capabilities;
  call<M extends Method>(method: M, params: CallParamsOf<M>, options?: CallOptions): Promise<ResultOf<M>>;
  onStateChange(listener: (state: ClientState) => void): () => void;
  onNotification(
    method: 'ports/changed',
    listener: (params: NotificationParamsOf<'ports/changed'>) => void,
  ): () => void;
}

/** Watches the listening ports of the processes of one owner. It continues after a recovery of the connection. */
export class PortWatch implements AsyncDisposable {
  readonly #client: PortWatchClient;
  readonly #listener: PortListener;
  readonly #stops: (() => void)[];
  #watchId = '';
  /** Whether a notification has overtaken the processing of the result. */
  #isNewer = false;
  #last = '';

  private constructor(client: PortWatchClient, listener: PortListener) {
    this.#client = client;
    this.#listener = listener;
    this.#stops = [
      client.onNotification('ports/changed', ({ watchId, ports }) => {
        if (watchId !== this.#watchId) return;
        this.#isNewer = true;
        this.#report(ports);
      }),
      client.onStateChange((state) => {
        // Watches end with their connection. An error here means that it is lost again, or for good.
        if (state === 'connected') this.#begin().catch(() => {});
      }),
    ];
  }

  /** Opens a watch and reports the ports of now. Rejects with ClientError. */
  static async open(client: PortWatchClient, listener: PortListener): Promise<PortWatch> {
    expectFunction('listener', listener);
    requireTcp(client);
    const watch = new PortWatch(client, listener);
    try {
      await watch.#begin();
      return watch;
    } catch (error) {
      watch.#stop();
      throw error;
    }
  }

  /** Ends the watch. */
  async close(): Promise<void> {
    this.#stop();
    await this.#client.call('ports/unwatch', { watchId: this.#watchId }).catch((error: unknown) => {
      // Without a connection there is no watch.
      if (!(error instanceof ClientError)) throw error;
    });
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  async #begin(): Promise<void> {
    const watchId = `ports-${++lastWatch}`;
    this.#watchId = watchId;
    this.#isNewer = false;
    const { ports } = await this.#client.call('ports/watch', { watchId });
    if (watchId === this.#watchId && !this.#isNewer) this.#report(ports);
  }

  #report(ports: readonly WatchedPort[]): void {
    const text = JSON.stringify(ports);
    if (text === this.#last) return;
    this.#last = text;
    notify('client.watchPorts', this.#listener, ports);
  }

  #stop(): void {
    for (const stop of this.#stops) stop();
  }
}

let lastWatch = 0;
