import {
  FIRST_SESSION_ID,
  LAST_SESSION_ID,
  MAX_BUSY_SESSIONS,
  MAX_SESSIONS,
  PROTECTED_SESSIONS,
} from '../limits.ts';

/** What the store has to know of a session. */
export interface Stored {
  readonly id: number;
  readonly hasExited: boolean;
  /** Whether a call is under way on it. */
  readonly busy: boolean;
}

/** The sessions of a model, by ids that are easy to repeat. */
export class SessionStore<Session extends Stored> {
  readonly #random: () => number;
  readonly #reserved = new Set<number>();
  /** The least recently used first. */
  readonly #sessions = new Map<number, Session>();

  constructor(random: () => number) {
    this.#random = random;
  }

  /** An id that nobody has, for {@link add} or {@link cancel}; null when there are too many. */
  reserve(): number | null {
    if (this.#reserved.size + this.#sessions.size >= MAX_BUSY_SESSIONS) return null;
    const count = LAST_SESSION_ID - FIRST_SESSION_ID + 1;
    let id = FIRST_SESSION_ID + Math.floor(this.#random() * count);
    while (this.#reserved.has(id) || this.#sessions.has(id))
      id = id === LAST_SESSION_ID ? FIRST_SESSION_ID : id + 1;
    this.#reserved.add(id);
    return id;
  }

  /** Gives back an id that was not used. */
  cancel(id: number): void {
    this.#reserved.delete(id);
  }

  /** Keeps a session under its reserved id. */
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
   * Removes and returns the sessions that have to make room, if there are too many. The most recently used stay; of the others the
   * oldest that has ended goes, else the oldest. One with a call under way stays, and while that one has ended nothing that runs
   * has to go: its room will be free soon.
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
