import { setTimeout as delay } from 'node:timers/promises';
import type { Logger } from '../observability/log.ts';
import type { NotificationParamsOf } from '../protocol/registry.ts';
import type { ClientConnection } from './client-connection.ts';
import { DRAIN_CHECK_MS, DRAIN_LINGER_MS } from './limits.ts';
import type { SessionRegistry } from './sessions/session-registry.ts';

/** The parts of a server that drain. */
interface DrainedServer {
  readonly sessions: SessionRegistry;
  readonly connections: ReadonlySet<ClientConnection>;
  readonly log: Logger;
}

/**
 * A server on its way to the end: it refuses new sessions and programs, and waits until the programs have closed and their clients have
 * the output. Clients can meanwhile resume their sessions and use everything else.
 */
export class Draining {
  /** What clients that asked for it receive. */
  readonly announced: NotificationParamsOf<'server/draining'>;
  /** Resolves when the last program has closed and its output is delivered, when the time is over, and after {@link stop}. */
  readonly done: Promise<void>;
  readonly #server: DrainedServer;
  readonly #stopped = new AbortController();

  constructor(server: DrainedServer, timeoutMs: number) {
    this.#server = server;
    this.announced = Number.isFinite(timeoutMs) ? { deadlineMs: Date.now() + timeoutMs } : {};
    server.sessions.drain();
    server.log.info('draining', { programs: server.sessions.directory.unfinished });
    for (const connection of server.connections) connection.announceDraining(this.announced);
    this.done = this.#wait(performance.now() + timeoutMs);
  }

  /** The server closes now. */
  stop(): void {
    this.#stopped.abort();
  }

  async #wait(deadline: number): Promise<void> {
    const { sessions, connections, log } = this.#server;
    const { directory } = sessions;
    const { signal } = this.#stopped;
    while (directory.unfinished > 0 && performance.now() < deadline && !signal.aborted) {
      await this.#pause(Math.min(DRAIN_CHECK_MS, deadline - performance.now()));
    }
    if (signal.aborted) return;
    if (directory.unfinished > 0) {
      log.warn('the time to drain is over', { programs: directory.unfinished });
      return;
    }
    // A client may still want to ask for something.
    const left = Promise.all([...connections].map(({ closed }) => closed));
    await Promise.race([left, this.#pause(DRAIN_LINGER_MS)]);
  }

  async #pause(ms: number): Promise<void> {
    await delay(ms, undefined, { signal: this.#stopped.signal }).catch(() => {});
  }
}
