import { createHash, timingSafeEqual } from 'node:crypto';
import { CloseCode, type CloseReason } from '../transport/transport.ts';
import { largestShare } from './largest-share.ts';
import {
  MAX_ENDED_SESSIONS,
  MAX_SESSIONS,
  SESSION_CHECK_MS,
  SESSION_IDLE_MS,
  SESSION_MAX_MS,
} from './limits.ts';
import { newSecret } from './one-time-secrets.ts';

/** Why a session has ended. The page shows a message for each. */
export type SessionEnd = 'signedOut' | 'expired' | 'kicked';

/** The close codes of a session's websockets. 4000 to 4999 are free for applications (RFC 6455, section 7.4.2). */
const SESSION_END: Readonly<Record<SessionEnd, CloseReason>> = {
  signedOut: { code: 4401, reason: 'signed out' },
  expired: { code: 4402, reason: 'the console session has expired' },
  kicked: { code: 4403, reason: 'the console session was ended by the server' },
};

/** For the page this is like a lost connection: the server may come back. */
const CONSOLE_ENDED: CloseReason = { code: CloseCode.goingAway, reason: 'the console has ended' };

/** A websocket of a session. */
interface SessionSocket {
  close(reason: CloseReason): void;
}

/** A browser that has signed in. */
export interface ConsoleSession<Grant> {
  /** The value of the cookie. */
  readonly id: string;
  /** A second secret, which the browser does not send to other ports of the host. */
  readonly key: string;
  readonly grant: Grant;
  readonly expiresAtMs: number;
  readonly sockets: Set<SessionSocket>;
  lastUsedMs: number;
}

/** What sessions depend on. */
interface SessionRules<Grant> {
  /** Whether what a session may do is still granted. */
  isGranted(grant: Grant): boolean;
  ownerOf(grant: Grant): string;
  ended(session: ConsoleSession<Grant>): void;
}

/** Times of sessions, and the clock. */
interface SessionTimes {
  readonly idleMs: number;
  readonly maxMs: number;
  readonly checkMs: number;
  now(): number;
}

const TIMES: SessionTimes = {
  idleMs: SESSION_IDLE_MS,
  maxMs: SESSION_MAX_MS,
  checkMs: SESSION_CHECK_MS,
  now: () => Date.now(),
};

/**
 * The browsers that have signed in. A session ends after a time without use, after a maximum time, when it signs out, when its grant is
 * withdrawn, when its browser signs in again, and when there are too many and its owner has most of them. Its websockets end with it.
 */
export class ConsoleSessions<Grant> {
  readonly #times: SessionTimes;
  readonly #rules: SessionRules<Grant>;
  readonly #sessions = new Map<string, ConsoleSession<Grant>>();
  /** Why the latest sessions ended, by id. The oldest first. */
  readonly #ended = new Map<string, SessionEnd>();
  #timer: NodeJS.Timeout | null = null;

  constructor(rules: SessionRules<Grant>, times: Partial<SessionTimes> = {}) {
    this.#rules = rules;
    this.#times = { ...TIMES, ...times };
  }

  /** Signs a browser in. `expiresAtMs` is when its grant ends; null when it does not. */
  open(grant: Grant, expiresAtMs: number | null): ConsoleSession<Grant> {
    this.#endOverdue();
    if (this.#sessions.size >= MAX_SESSIONS) this.end(this.#leastRecentlyUsed(), 'kicked');
    const nowMs = this.#times.now();
    const session: ConsoleSession<Grant> = {
      id: newSecret(),
      key: newSecret(),
      grant,
      expiresAtMs: Math.min(nowMs + this.#times.maxMs, expiresAtMs ?? Number.POSITIVE_INFINITY),
      sockets: new Set(),
      lastUsedMs: nowMs,
    };
    this.#sessions.set(session.id, session);
    this.#timer ??= setInterval(() => this.#endOverdue(), this.#times.checkMs).unref();
    return session;
  }

  /** Returns the session of a cookie, and counts as a use. Otherwise why there is none. */
  use(id: string | null): ConsoleSession<Grant> | SessionEnd {
    this.#endOverdue();
    const session = id === null ? undefined : this.#sessions.get(id);
    if (session === undefined) return (id !== null && this.#ended.get(id)) || 'signedOut';
    session.lastUsedMs = this.#times.now();
    return session;
  }

  /** Adds a websocket, which ends with the session. Returns the function that removes it. */
  addSocket(session: ConsoleSession<Grant>, socket: SessionSocket): () => void {
    session.sockets.add(socket);
    return () => {
      session.sockets.delete(socket);
      // A page that was open until now was in use until now.
      session.lastUsedMs = this.#times.now();
    };
  }

  /** Ends a session and its websockets. */
  end(session: ConsoleSession<Grant>, why: SessionEnd, reason: CloseReason = SESSION_END[why]): void {
    if (!this.#sessions.delete(session.id)) return;
    this.#ended.set(session.id, why);
    const [oldest] = this.#ended.keys();
    if (this.#ended.size > MAX_ENDED_SESSIONS && oldest !== undefined) this.#ended.delete(oldest);
    for (const socket of session.sockets) socket.close(reason);
    this.#rules.ended(session);
    if (this.#sessions.size > 0 || this.#timer === null) return;
    clearInterval(this.#timer);
    this.#timer = null;
  }

  /** Ends all sessions. */
  close(): void {
    for (const session of [...this.#sessions.values()]) this.end(session, 'signedOut', CONSOLE_ENDED);
  }

  #endOverdue(): void {
    const nowMs = this.#times.now();
    for (const session of [...this.#sessions.values()]) {
      const isIdle = session.sockets.size === 0 && nowMs - session.lastUsedMs >= this.#times.idleMs;
      if (isIdle || nowMs >= session.expiresAtMs) this.end(session, 'expired');
      else if (!this.#rules.isGranted(session.grant)) this.end(session, 'kicked');
    }
  }

  /** Of the sessions of the owner that has most. Those with an open page come last. There is at least one session. */
  #leastRecentlyUsed(): ConsoleSession<Grant> {
    const age = ({ sockets, lastUsedMs }: ConsoleSession<Grant>) =>
      sockets.size > 0 ? Number.POSITIVE_INFINITY : lastUsedMs;
    const share = largestShare(this.#sessions.values(), ({ grant }) => this.#rules.ownerOf(grant));
    return share.reduce((oldest, session) => (age(session) < age(oldest) ? session : oldest));
  }
}

/** Compares a key in constant time. */
export function isKey(given: string, expected: string): boolean {
  return timingSafeEqual(digest(given), digest(expected));
}

function digest(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}
