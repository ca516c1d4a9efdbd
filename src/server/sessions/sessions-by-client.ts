import { THREE_QUARTERS } from '../../base/fair-shares.ts';
import { limitExceeded } from '../../protocol/errors.ts';
import type { ExecServerConfig } from '../config/config.ts';
import type { Session } from './session.ts';

type SessionLimit = Pick<ExecServerConfig, 'maxSessions' | 'wsAuth'>;

/** The sessions of one client. */
interface ClientSessions {
  readonly all: Set<Session>;
  /** The session that was detached first comes first. */
  readonly detached: Set<Session>;
}

/**
 * The sessions of a server by the client that created them, and which of them ends when there are too many. The fair share of a client
 * is the maximum divided by the number of clients. A client below its share may replace sessions of clients above theirs. Other clients
 * only replace sessions of their own. With signed tokens a client above its share leaves a quarter of what is free to the next one.
 */
export class SessionsByClient {
  readonly #maxSessions: number;
  readonly #largestPart: number;
  readonly #clients = new Map<string, ClientSessions>();
  #size = 0;
  #detached = 0;

  constructor({ maxSessions, wsAuth }: SessionLimit) {
    this.#maxSessions = maxSessions;
    this.#largestPart = wsAuth === 'signed-bearer-token' ? THREE_QUARTERS.fraction : 1;
  }

  /** Numbers of attached and detached sessions. */
  get counts(): { readonly attached: number; readonly detached: number } {
    return { attached: this.#size - this.#detached, detached: this.#detached };
  }

  add(session: Session): void {
    const client = this.#clients.get(session.client);
    if (client === undefined) {
      this.#clients.set(session.client, { all: new Set([session]), detached: new Set() });
    } else client.all.add(session);
    this.#size++;
  }

  delete(session: Session): void {
    this.setDetached(session, false);
    const client = this.#clients.get(session.client);
    if (!client?.all.delete(session)) return;
    this.#size--;
    if (client.all.size === 0) this.#clients.delete(session.client);
  }

  /** Records that a session was detached or resumed. */
  setDetached(session: Session, isDetached: boolean): void {
    const detached = this.#clients.get(session.client)?.detached;
    if (detached === undefined || detached.has(session) === isDetached) return;
    if (isDetached) detached.add(session);
    else detached.delete(session);
    this.#detached += isDetached ? 1 : -1;
  }

  /**
   * Returns the session to end before this client gets a new one; null when none has to end. It is detached and has no running process.
   * Throws RpcError when there is no such session.
   */
  evictedFor(clientName: string): Session | null {
    const client = this.#clients.get(clientName);
    const held = client?.all.size ?? 0;
    const others = this.#clients.size - (client === undefined ? 0 : 1);
    const fairShare = Math.floor(this.#maxSessions / (others + 1));
    // With more clients than sessions, a client without any may still get one.
    const isBelowShare = held < Math.max(1, fairShare);
    const free = this.#maxSessions - this.#size;
    const mayTakeFree = (others > 0 && isBelowShare) || held < Math.ceil((held + free) * this.#largestPart);
    if (free > 0 && mayTakeFree) return null;
    const evicted =
      (isBelowShare ? oldestIdle(this.#above(fairShare)) : null) ??
      (client === undefined ? null : oldestIdle([client]));
    if (evicted !== null) return evicted;
    throw limitExceeded(
      free > 0
        ? `this client has ${held} of the ${this.#maxSessions} sessions that the server keeps (maxSessions), and the rest is for other clients; resume one of its sessions, or end the programs of a detached one`
        : `the server keeps ${this.#size} sessions, the configured maximum (maxSessions)`,
    );
  }

  /** The clients with more sessions than this, the one with the most first. */
  #above(sessions: number): ClientSessions[] {
    const above = [...this.#clients.values()].filter(({ all }) => all.size > sessions);
    return above.sort((a, b) => b.all.size - a.all.size);
  }
}

/** Of the first client that has one: the session without a running process that was detached first. */
function oldestIdle(clients: readonly ClientSessions[]): Session | null {
  for (const { detached } of clients) {
    for (const session of detached) if (session.processes.idle) return session;
  }
  return null;
}
