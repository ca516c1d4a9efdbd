import {
  FIRST_SESSION_ID,
  LAST_SESSION_ID,
  MAX_BUSY_SESSIONS,
  MAX_SESSIONS,
  PROTECTED_SESSIONS,
} from '../limits.ts';

/** The part of a session that the store uses. */
export interface Stored {
  readonly id: number;
  readonly hasExited: boolean;
  /** Whether a call uses it. */
  readonly busy: boolean;
}

/** The sessions of a model, by short ids. */
export class SessionStore<Session extends Stored> {
  readonly #random: () => number;
  readonly #reserved = new Set<number>();
  /** In least recently used order. */
  readonly #sessions = new Map<number, Session>();

  constructor(random: () => number) {
    this.#random = random;
  }

  /** Reserves a free id for {@link add} or {@link cancel}. Returns null when there are too many. */
  reserve(): number | null {
    if (this.#reserved.size + this.#sessions.size >= MAX_BUSY_SESSIONS) return null;
    const count = LAST_SESSION_ID - FIRST_SESSION_ID + 1;
    let id = FIRST_SESSION_ID + Math.floor(this.#random() * count);
    while (this.#reserved.has(id) || this.#sessions.has(id))
      id = id === LAST_SESSION_ID ? FIRST_SESSION_ID : id + 1;
    this.#reserved.add(id);
    return id;
  }

  /** Releases a reserved id. */
  cancel(id: number): void {
    this.#reserved.delete(id);
  }

  /** Stores a session under its reserved id. */
  add(session: Session): void {
    this.#reserved.delete(session.id);
    this.#sessions.set(session.id, session);
  }

  get(id: number): Session | undefined {
    return this.#sessions.get(id);
  }

  has(session: Session): boolean {
    return this.#sessions.get(session.id) === session;
  }

  touch(session: Session): void {
    this.#sessions.delete(session.id);
    this.#sessions.set(session.id, session);
  }

  remove(session: Session): void {
    if (this.has(session)) this.#sessions.delete(session.id);
  }

  all(): Session[] {
    return [...this.#sessions.values()];
  }

  /**
   * Evicts sessions when there are too many, and returns them. The most recently used ones stay. Of the others it evicts the oldest
   * that has exited, else the oldest. A session with a call stays; if its program has exited, no running program is evicted, because
   * the slot will be free soon.
   */
  evict(): Session[] {
    const evicted: Session[] = [];
    while (this.#sessions.size > MAX_SESSIONS) {
      const victim = this.#dispensable();
      if (victim === undefined) break;
      this.remove(victim);
      evicted.push(victim);
    }
    return evicted;
  }

  #dispensable(): Session | undefined {
    const candidates = this.all().slice(0, -PROTECTED_SESSIONS);
    const ended = candidates.filter(({ hasExited }) => hasExited);
    return (ended.length > 0 ? ended : candidates).find(({ busy }) => !busy);
  }
}
