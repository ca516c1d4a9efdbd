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

/** What a server that drains waits for. */
export interface DrainStatus {
  /** When the server ends the programs that are left, in Unix time; null when it waits without a limit. */
  readonly deadlineMs: number | null;
  /** The programs that have not ended, or whose output is not delivered yet, in the order of their starts. */
  readonly programs: readonly UnfinishedProgram[];
}

/** A program that a server waits for. */
export interface UnfinishedProgram {
  readonly ref: string;
  readonly name: string | null;
  /** May be shortened. */
  readonly argv: readonly string[];
  readonly startedAtMs: number;
}

/**
 * A server on its way to the end: it refuses new work, and waits until the programs have closed and their clients have the output.
 * Clients can meanwhile resume their sessions and use everything else. A new session can look at programs, control them and read files.
 */
export class Draining {
  /** Resolves when the last program has closed and its output is delivered, when the time is over, and after {@link stop}. */
  readonly done: Promise<void>;
  readonly #server: DrainedServer;
  readonly #stopped = new AbortController();
  #deadlineMs: number | null = null;
  /** The same on the clock that cannot be set. */
  #deadline = Number.POSITIVE_INFINITY;

  constructor(server: DrainedServer, timeoutMs: number) {
    this.#server = server;
    server.sessions.drain();
    server.log.info('draining', { programs: server.sessions.directory.unfinished });
    this.limit(timeoutMs);
    this.done = this.#wait();
  }

  /** What clients that asked for it receive. */
  get announced(): NotificationParamsOf<'server/draining'> {
    return this.#deadlineMs === null ? {} : { deadlineMs: this.#deadlineMs };
  }

  get status(): DrainStatus {
    const programs: UnfinishedProgram[] = [];
    for (const { unfinished, summary, ref, name } of this.#server.sessions.directory.list(null)) {
      if (!unfinished || summary === undefined) continue;
      programs.push({ ref, name, argv: summary.program.argv, startedAtMs: summary.startedAtMs });
    }
    return { deadlineMs: this.#deadlineMs, programs };
  }

  /** Ends the programs that are left after this time from now, and announces that. */
  limit(timeoutMs: number): void {
    this.#deadline = performance.now() + timeoutMs;
    this.#deadlineMs = Number.isFinite(timeoutMs) ? Date.now() + timeoutMs : null;
    for (const connection of this.#server.connections) connection.announceDraining(this.announced);
  }

  /** The server closes now. */
  stop(): void {
    this.#stopped.abort();
  }

  async #wait(): Promise<void> {
    const { sessions, connections, log } = this.#server;
    const { directory } = sessions;
    const { signal } = this.#stopped;
    while (directory.unfinished > 0 && performance.now() < this.#deadline && !signal.aborted) {
      await this.#pause(Math.min(DRAIN_CHECK_MS, this.#deadline - performance.now()));
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
