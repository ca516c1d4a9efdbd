import { setMaxListeners } from 'node:events';
import type { Spawner } from '../process/spawn/spawner.ts';
import { invalidRequest, printable, sessionAttached } from '../protocol/errors.ts';
import type { ExecServerConfig } from './config.ts';
import { Session } from './session.ts';

/** Every session of a server: attached, or detached and waiting to be resumed until its time is up. */
export class SessionRegistry {
  readonly #config: ExecServerConfig;
  readonly #spawner: Spawner;
  readonly #sessions = new Map<string, Session>();
  /** Expiry timers of detached sessions, the longest detached first. */
  readonly #expiries = new Map<Session, NodeJS.Timeout>();
  readonly #ending = new Set<Promise<void>>();
  #closing = false;

  constructor(config: ExecServerConfig, spawner: Spawner) {
    this.#config = config;
    this.#spawner = spawner;
  }

  /** A new session. Throws RpcError while the server shuts down. */
  create(): Session {
    this.#refuseWhenClosing();
    const { maxProcessesPerConnection, closedProcessRetentionMs, detachedSessionTtlMs } = this.#config;
    const options = { maxProcesses: maxProcessesPerConnection, closedRetentionMs: closedProcessRetentionMs };
    const session = new Session(this.#spawner, options, detachedSessionTtlMs);
    this.#sessions.set(session.id, session);
    return session;
  }

  /** A detached session, taken out of the expiry. Throws RpcError when it is unknown or in use. */
  resume(sessionId: string): Session {
    this.#refuseWhenClosing();
    const session = this.#sessions.get(sessionId);
    if (session === undefined) throw invalidRequest(`unknown session id ${printable(sessionId)}`);
    if (session.attached) throw sessionAttached(sessionId);
    clearTimeout(this.#expiries.get(session));
    this.#expiries.delete(session);
    return session;
  }

  /** Keeps the session for a while, unless the server shuts down; with too many detached ones the longest detached ends. */
  detach(session: Session): void {
    session.detach();
    if (session.detachedTtlMs === 0 || this.#closing) {
      this.end(session);
      return;
    }
    this.#expiries.set(
      session,
      setTimeout(() => this.end(session), session.detachedTtlMs),
    );
    const [oldest] = this.#expiries.keys();
    if (this.#expiries.size > this.#config.maxConnections && oldest !== undefined) this.end(oldest);
  }

  /** Kills the session's processes and forgets it. */
  end(session: Session): void {
    clearTimeout(this.#expiries.get(session));
    this.#expiries.delete(session);
    this.#sessions.delete(session.id);
    session.detach();
    const ended = session.processes.close().finally(() => this.#ending.delete(ended));
    this.#ending.add(ended);
  }

  /** Asks every process to end and gives them `graceMs`; then kills what is left. */
  async close(signal: number, graceMs: number): Promise<void> {
    this.#closing = true;
    const sessions = [...this.#sessions.values()];
    for (const session of sessions) session.processes.signalAll(signal);
    const grace = new AbortController();
    // Every process listens; their number is bounded by the sessions.
    setMaxListeners(0, grace.signal);
    const timer = setTimeout(() => grace.abort(), graceMs);
    await Promise.all(sessions.map((session) => session.processes.allClosed(grace.signal)));
    clearTimeout(timer);
    // Killed while attached, so that clients hear how it ended.
    await Promise.all(sessions.map((session) => session.processes.close()));
    for (const session of sessions) this.end(session);
    await Promise.all(this.#ending);
  }

  #refuseWhenClosing(): void {
    if (this.#closing) throw invalidRequest('the server is shutting down');
  }
}
