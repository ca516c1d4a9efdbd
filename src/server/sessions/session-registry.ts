import { setMaxListeners } from 'node:events';
import { MAX_TIMER_MS } from '../../process/limits.ts';
import {
  effectiveLimits,
  limitsAnything,
  type ResourceLimits,
  SessionLimits,
} from '../../process/resources/resource-limits.ts';
import type { Spawner } from '../../process/spawn/spawner.ts';
import { invalidRequest, limitExceeded, printable, sessionAttached } from '../../protocol/errors.ts';
import { FULL_ACCESS_KEY } from '../auth/access.ts';
import type { ExecServerConfig } from '../config/config.ts';
import { DetachedProcesses } from './detached-processes.ts';
import { Session } from './session.ts';

/** The sessions of a server. A detached session can be resumed until its TTL has passed. */
export class SessionRegistry {
  readonly #config: ExecServerConfig;
  readonly #spawner: Spawner;
  readonly #sessions = new Map<string, Session>();
  readonly #detached = new DetachedSessions();
  readonly #detachedProcesses: DetachedProcesses;
  /** The limits that every session gets; null is no limit. */
  readonly #limits: ResourceLimits | null;
  readonly #ending = new Set<Promise<void>>();
  #closing = false;

  constructor(config: ExecServerConfig, spawner: Spawner) {
    this.#config = config;
    this.#spawner = spawner;
    this.#detachedProcesses = new DetachedProcesses(config);
    this.#limits = sessionLimits(config);
  }

  /** Numbers of attached and detached sessions. */
  get counts(): { readonly attached: number; readonly detached: number } {
    const detached = this.#detached.size;
    return { attached: this.#sessions.size - detached, detached };
  }

  /** Closed processes that detached sessions keep beyond their retention time, and the bytes of their output. */
  get detachedProcesses(): DetachedProcesses['total'] {
    return this.#detachedProcesses.total;
  }

  /**
   * Creates a session. `client` identifies its token or address. Throws RpcError while the server shuts down and when it has the maximum
   * number of sessions.
   */
  create(accessKey = FULL_ACCESS_KEY, client = ''): Session {
    this.#refuseWhenClosing();
    if (this.#sessions.size >= this.#config.maxSessions) this.#evictIdle();
    const { maxProcessesPerConnection, closedProcessRetentionMs, detachedSessionTtlMs } = this.#config;
    const options = {
      maxProcesses: maxProcessesPerConnection,
      closedRetentionMs: closedProcessRetentionMs,
      keeper: this.#detachedProcesses.keeperFor(client),
    };
    const limits = this.#limits === null ? null : new SessionLimits(this.#limits);
    const session = new Session(this.#spawner, options, detachedSessionTtlMs, accessKey, client, limits);
    this.#sessions.set(session.id, session);
    return session;
  }

  /** Returns a detached session and stops its expiry. Throws RpcError when it is unknown, has other access rights or is attached. */
  resume(sessionId: string, accessKey = FULL_ACCESS_KEY): Session {
    this.#refuseWhenClosing();
    const session = this.#sessions.get(sessionId);
    // A client must not reach the processes of a client with more rights, even if it knows the session id.
    if (session === undefined || session.accessKey !== accessKey) {
      throw invalidRequest(`unknown session id ${printable(sessionId)}`);
    }
    if (session.attached) {
      // The attached connection may be dead, and its client may be the one that reconnects. The probe detects that, and a retry succeeds.
      session.probe();
      throw sessionAttached(sessionId);
    }
    this.#detached.delete(session);
    return session;
  }

  /** Keeps the session for its TTL, unless the server shuts down. */
  detach(session: Session): void {
    session.detach();
    if (session.detachedTtlMs === 0 || this.#closing) {
      this.end(session);
      return;
    }
    this.#detached.add(session, () => this.end(session));
  }

  /** Kills the session's processes and removes it. */
  end(session: Session): void {
    this.#detached.delete(session);
    this.#sessions.delete(session.id);
    const ended = session.close().finally(() => this.#ending.delete(ended));
    this.#ending.add(ended);
  }

  /** Sends `signal`, if any, to every process, waits up to `graceMs`, then kills the rest. */
  async close(signal: number | null, graceMs: number): Promise<void> {
    this.#closing = true;
    const sessions = [...this.#sessions.values()];
    if (signal !== null) for (const session of sessions) session.processes.signalAll(signal);
    const grace = new AbortController();
    // Every process adds a listener; the sessions bound their number.
    setMaxListeners(0, grace.signal);
    const timer = setTimeout(() => grace.abort(), graceMs);
    await Promise.all(sessions.map((session) => session.processes.allClosed(grace.signal)));
    clearTimeout(timer);
    // The sessions are still attached, so that clients receive the exit events.
    await Promise.all(sessions.map((session) => session.processes.close()));
    for (const session of sessions) this.end(session);
    await Promise.all(this.#ending);
  }

  /** Makes room for a new session. Running processes are never killed for one. */
  #evictIdle(): void {
    const evicted = this.#detached.oldestIdle();
    if (evicted === null) {
      throw limitExceeded(
        `the server keeps ${this.#sessions.size} sessions, the configured maximum (maxSessions)`,
      );
    }
    this.end(evicted);
  }

  #refuseWhenClosing(): void {
    if (this.#closing) throw invalidRequest('the server is shutting down');
  }
}

/** The detached sessions, by the client that created them. */
class DetachedSessions {
  /** Null for a TTL that is none or longer than any timer. */
  readonly #expiries = new Map<Session, NodeJS.Timeout | null>();
  /** The session that was detached first comes first. */
  readonly #byClient = new Map<string, Set<Session>>();

  get size(): number {
    return this.#expiries.size;
  }

  /** Adds a session. `expired` is called after its TTL. */
  add(session: Session, expired: () => void): void {
    const { detachedTtlMs } = session;
    this.#expiries.set(session, detachedTtlMs <= MAX_TIMER_MS ? setTimeout(expired, detachedTtlMs) : null);
    const sessions = this.#byClient.get(session.client);
    if (sessions === undefined) this.#byClient.set(session.client, new Set([session]));
    else sessions.add(session);
  }

  delete(session: Session): void {
    clearTimeout(this.#expiries.get(session) ?? undefined);
    this.#expiries.delete(session);
    const sessions = this.#byClient.get(session.client);
    if (sessions?.delete(session) && sessions.size === 0) this.#byClient.delete(session.client);
  }

  /**
   * Returns a session without a running process: of the client with the most detached sessions, the one that was detached first. So no
   * client can evict the sessions of others by opening many.
   */
  oldestIdle(): Session | null {
    for (const sessions of [...this.#byClient.values()].sort((a, b) => b.size - a.size)) {
      for (const session of sessions) if (session.processes.idle) return session;
    }
    return null;
  }
}

function sessionLimits(config: ExecServerConfig): ResourceLimits | null {
  const { resources } = effectiveLimits(null, {
    memoryBytes: config.maxSessionMemoryBytes,
    pids: config.maxSessionPids,
    cpuPercent: config.maxSessionCpuPercent,
  });
  return limitsAnything(resources) ? resources : null;
}
