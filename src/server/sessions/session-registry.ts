import { setMaxListeners } from 'node:events';
import { effectiveLimits, limitsAnything, SessionLimits } from '../../process/resources/resource-limits.ts';
import type { Spawner } from '../../process/spawn/spawner.ts';
import { invalidRequest, limitExceeded, printable, sessionAttached } from '../../protocol/errors.ts';
import { FULL_ACCESS_KEY } from '../auth/access.ts';
import type { ExecServerConfig } from '../config/config.ts';
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

  /** How many sessions have a connection and how many wait for one. */
  get counts(): { readonly attached: number; readonly detached: number } {
    return { attached: this.#sessions.size - this.#expiries.size, detached: this.#expiries.size };
  }

  /** A new session. Throws RpcError while the server shuts down or has as many as it keeps. */
  create(accessKey = FULL_ACCESS_KEY): Session {
    this.#refuseWhenClosing();
    if (this.#sessions.size >= this.#config.maxSessions) this.#makeRoom();
    const { maxProcessesPerConnection, closedProcessRetentionMs, detachedSessionTtlMs } = this.#config;
    const options = { maxProcesses: maxProcessesPerConnection, closedRetentionMs: closedProcessRetentionMs };
    const limits = sessionLimits(this.#config);
    const session = new Session(this.#spawner, options, detachedSessionTtlMs, accessKey, limits);
    this.#sessions.set(session.id, session);
    return session;
  }

  /** A detached session, taken out of the expiry. Throws RpcError when it is unknown, of other access or in use. */
  resume(sessionId: string, accessKey = FULL_ACCESS_KEY): Session {
    this.#refuseWhenClosing();
    const session = this.#sessions.get(sessionId);
    // A client that may do less must not get at what one that may do more has started, whatever ids it knows.
    if (session === undefined || session.accessKey !== accessKey) {
      throw invalidRequest(`unknown session id ${printable(sessionId)}`);
    }
    if (session.attached) {
      // Its client may have lost its link without a word and be the one who asks; it may then try again.
      session.probe();
      throw sessionAttached(sessionId);
    }
    clearTimeout(this.#expiries.get(session));
    this.#expiries.delete(session);
    return session;
  }

  /** Keeps the session for a while, unless the server shuts down. */
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
  }

  /** Kills the session's processes and forgets it. */
  end(session: Session): void {
    clearTimeout(this.#expiries.get(session));
    this.#expiries.delete(session);
    this.#sessions.delete(session.id);
    const ended = session.close().finally(() => this.#ending.delete(ended));
    this.#ending.add(ended);
  }

  /** Sends `signal` to every process, waits up to `graceMs`, then kills what is left. Without a grace period there is no signal. */
  async close(signal: number, graceMs: number): Promise<void> {
    this.#closing = true;
    const sessions = [...this.#sessions.values()];
    if (graceMs > 0) for (const session of sessions) session.processes.signalAll(signal);
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

  /** Ends the longest detached session in which nothing runs. What runs is never ended for somebody else's sake. */
  #makeRoom(): void {
    for (const session of this.#expiries.keys()) {
      if (!session.processes.idle) continue;
      this.end(session);
      return;
    }
    throw limitExceeded(
      `the server keeps ${this.#sessions.size} sessions, the configured maximum (maxSessions)`,
    );
  }

  #refuseWhenClosing(): void {
    if (this.#closing) throw invalidRequest('the server is shutting down');
  }
}

function sessionLimits(config: ExecServerConfig): SessionLimits | null {
  const { resources } = effectiveLimits(null, {
    memoryBytes: config.maxSessionMemoryBytes,
    pids: config.maxSessionPids,
    cpuPercent: config.maxSessionCpuPercent,
  });
  return limitsAnything(resources) ? new SessionLimits(resources) : null;
}
