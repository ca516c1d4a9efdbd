import { setMaxListeners } from 'node:events';
import { MAX_TIMER_MS } from '../../process/limits.ts';
import {
  effectiveLimits,
  limitsAnything,
  type ResourceLimits,
  SessionLimits,
} from '../../process/resources/resource-limits.ts';
import type { Spawner } from '../../process/spawn/spawner.ts';
import { invalidRequest, printable, type RpcError, sessionAttached } from '../../protocol/errors.ts';
import { FULL_ACCESS_KEY } from '../auth/access.ts';
import { LOCAL_OWNER, sameOwner } from '../auth/principal.ts';
import type { ExecServerConfig } from '../config/config.ts';
import { DetachedProcesses } from './detached-processes.ts';
import { ProcessDirectory } from './process-directory.ts';
import { Session } from './session.ts';
import { SessionsByClient } from './sessions-by-client.ts';

/** How a session has lost its connection. */
interface Detachment {
  /** Whether its client may come back: neither the client nor a rule of the server has ended the connection. */
  readonly isLost: boolean;
  /** When its client's token expires, if connections end then. */
  readonly expiresAtMs: number | null;
}

const LOST: Detachment = { isLost: true, expiresAtMs: null };

/** The sessions of a server. A detached session can be resumed until its TTL has passed. */
export class SessionRegistry {
  readonly #config: ExecServerConfig;
  readonly #spawner: Spawner;
  readonly #sessions = new Map<string, Session>();
  readonly #byClient: SessionsByClient;
  /** Timers of the detached sessions; none for a TTL that is longer than any timer. */
  readonly #expiries = new Map<Session, NodeJS.Timeout>();
  readonly #detachedProcesses: DetachedProcesses;
  /** The limits that every session gets, and every owner for its detached processes; null is no limit. */
  readonly #limits: ResourceLimits | null;
  /** The processes of all sessions, and those that outlive their sessions. */
  readonly directory: ProcessDirectory;
  readonly #ending = new Set<Promise<void>>();
  #closing = false;
  #draining = false;

  constructor(config: ExecServerConfig, spawner: Spawner) {
    this.#config = config;
    this.#spawner = spawner;
    this.#byClient = new SessionsByClient(config);
    this.#detachedProcesses = new DetachedProcesses(config);
    this.#limits = sessionLimits(config);
    this.directory = new ProcessDirectory(spawner, (owner) => ({
      manager: {
        maxProcesses: config.maxProcessesPerConnection,
        holder: 'owner',
        closedRetentionMs: config.closedProcessRetentionMs,
        keeper: this.#detachedProcesses.keeperFor(owner),
      },
      limits: this.#limits && new SessionLimits(this.#limits, 'the detached programs of this owner'),
    }));
  }

  /** Numbers of attached and detached sessions. */
  get counts(): SessionsByClient['counts'] {
    return this.#byClient.counts;
  }

  /** Closed processes that sessions keep beyond their retention time, and their memory. */
  get detachedProcesses(): DetachedProcesses['total'] {
    return this.#detachedProcesses.total;
  }

  /** Refuses new work from now on. Sessions can be resumed, and their programs continue. */
  drain(): void {
    this.#draining = true;
    this.directory.drain();
  }

  /**
   * Creates a session. `client` identifies its token or address, `owner` whom its processes belong to. At the maximum number of sessions
   * one that is detached and has no running process ends. Throws RpcError when there is none that may end, while the server shuts down,
   * and while it drains unless `whileDraining`.
   */
  create(accessKey = FULL_ACCESS_KEY, client = '', owner = LOCAL_OWNER, whileDraining = false): Session {
    this.#refuseWhenClosing();
    if (this.#draining && !whileDraining) throw refusedByDraining('it accepts no new sessions');
    const evicted = this.#byClient.evictedFor(client);
    if (evicted !== null) this.end(evicted);
    const { maxProcessesPerConnection, closedProcessRetentionMs, detachedSessionTtlMs } = this.#config;
    const options = {
      maxProcesses: maxProcessesPerConnection,
      closedRetentionMs: closedProcessRetentionMs,
      keeper: this.#detachedProcesses.keeperFor(client),
    };
    const limits = this.#limits === null ? null : new SessionLimits(this.#limits);
    const session = new Session(
      this.#spawner,
      options,
      detachedSessionTtlMs,
      accessKey,
      client,
      limits,
      owner,
    );
    session.refusesNewWork = this.#draining;
    this.#sessions.set(session.id, session);
    this.#byClient.add(session);
    return session;
  }

  /** The session with this id, whether or not it is attached. */
  find(sessionId: string): Session | undefined {
    return this.#sessions.get(sessionId);
  }

  /**
   * Returns a detached session and stops its expiry. Throws RpcError when it is unknown, has other access rights or another owner, or is
   * attached.
   */
  resume(sessionId: string, accessKey = FULL_ACCESS_KEY, owner = LOCAL_OWNER): Session {
    this.#refuseWhenClosing();
    const session = this.#sessions.get(sessionId);
    // A client must not reach the processes of a client with more rights, even if it knows the session id.
    if (session === undefined || session.accessKey !== accessKey || !sameOwner(session.owner, owner)) {
      throw invalidRequest(`unknown session id ${printable(sessionId)}`);
    }
    if (session.attached) {
      // The attached connection may be dead, and its client may be the one that reconnects. The probe detects that, and a retry succeeds.
      session.probe();
      throw sessionAttached(sessionId);
    }
    this.#stopExpiry(session);
    this.#byClient.setDetached(session, false);
    return session;
  }

  /**
   * Keeps the session for its TTL, unless the server shuts down. A TTL that is longer than the server's own is for processes whose client
   * has lost its connection, and until its token expires.
   */
  detach(session: Session, { isLost, expiresAtMs }: Detachment = LOST): void {
    session.detach();
    const { detachedSessionTtlMs: ownTtlMs } = this.#config;
    const longestMs =
      isLost && !session.processes.isEmpty
        ? Math.max(ownTtlMs, (expiresAtMs ?? Infinity) - Date.now())
        : ownTtlMs;
    const ttlMs = Math.min(session.detachedTtlMs, longestMs);
    if (ttlMs === 0 || this.#closing) {
      this.end(session);
      return;
    }
    this.#byClient.setDetached(session, true);
    this.#expireAfter(ttlMs, session);
  }

  /** Takes back the longer TTLs that clients asked for from the sessions that `applies` selects. Detached ones have the server's own TTL left. */
  shortenTtl(applies: (session: Session) => boolean): void {
    const { detachedSessionTtlMs } = this.#config;
    for (const session of this.#sessions.values()) {
      if (session.detachedTtlMs <= detachedSessionTtlMs || !applies(session)) continue;
      session.detachedTtlMs = detachedSessionTtlMs;
      if (session.attached) continue;
      this.#stopExpiry(session);
      this.#expireAfter(detachedSessionTtlMs, session);
    }
  }

  /** Kills the session's processes and removes it. */
  end(session: Session): void {
    this.#stopExpiry(session);
    this.#byClient.delete(session);
    this.#sessions.delete(session.id);
    const ended = session.close().finally(() => this.#ending.delete(ended));
    this.#ending.add(ended);
  }

  /** Sends `signal`, if any, to every process, waits up to `graceMs`, then kills the rest. */
  async close(signal: number | null, graceMs: number): Promise<void> {
    this.#closing = true;
    const sessions = [...this.#sessions.values()];
    const managers = [...sessions.map(({ processes }) => processes), ...this.directory.close()];
    if (signal !== null) for (const processes of managers) processes.signalAll(signal);
    const grace = new AbortController();
    // Every process adds a listener; the sessions bound their number.
    setMaxListeners(0, grace.signal);
    const timer = setTimeout(() => grace.abort(), graceMs);
    await Promise.all(managers.map((processes) => processes.allClosed(grace.signal)));
    clearTimeout(timer);
    // The sessions are still attached, so that clients receive the exit events.
    await Promise.all(managers.map((processes) => processes.close()));
    for (const session of sessions) this.end(session);
    await Promise.all(this.#ending);
  }

  #expireAfter(ttlMs: number, session: Session): void {
    if (ttlMs > MAX_TIMER_MS) return;
    this.#expiries.set(
      session,
      setTimeout(() => this.end(session), ttlMs),
    );
  }

  #stopExpiry(session: Session): void {
    clearTimeout(this.#expiries.get(session));
    this.#expiries.delete(session);
  }

  #refuseWhenClosing(): void {
    if (this.#closing) throw invalidRequest('the server is shutting down');
  }
}

/** The error for what a server that drains no longer does. */
export function refusedByDraining(rule: string): RpcError {
  return invalidRequest(`the server is draining: ${rule} and will end soon; try again later`);
}

function sessionLimits(config: ExecServerConfig): ResourceLimits | null {
  const { resources } = effectiveLimits(null, {
    memoryBytes: config.maxSessionMemoryBytes,
    pids: config.maxSessionPids,
    cpuPercent: config.maxSessionCpuPercent,
  });
  return limitsAnything(resources) ? resources : null;
}
