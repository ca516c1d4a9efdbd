/** A source of time and timers. */
export interface Clock {
  /** Monotonic milliseconds. */
  now(): number;
  /** Milliseconds since the Unix epoch. */
  epochMs(): number;
  /** Calls back once after a time. Returns a function that cancels it. */
  after(ms: number, callback: () => void): () => void;
}

export const SYSTEM_CLOCK: Clock = {
  now: () => performance.now(),
  epochMs: () => Date.now(),
  // Events that became ready while the event loop was blocked come before the callback.
  after(ms, callback) {
    let immediate: NodeJS.Immediate | undefined;
    const timer = setTimeout(() => {
      immediate = setImmediate(callback);
    }, ms);
    return () => {
      clearTimeout(timer);
      clearImmediate(immediate);
    };
  },
};

/** A clock that can be paused: time limits that it measures grow by every pause. */
export class PausableClock {
  readonly #clock: Clock;
  readonly #listeners = new Set<() => void>();
  #pauses = 0;
  #pausedAt = 0;
  #pausedMs = 0;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  get paused(): boolean {
    return this.#pauses > 0;
  }

  now(): number {
    return (this.paused ? this.#pausedAt : this.#clock.now()) - this.#pausedMs;
  }

  /** Pauses the clock until all pauses have ended. Returns a function that ends this pause; a second call has no effect. */
  pause(): () => void {
    let open = true;
    if (this.#pauses++ === 0) {
      this.#pausedAt = this.#clock.now();
      this.#notify();
    }
    return () => {
      if (!open) return;
      open = false;
      if (--this.#pauses > 0) return;
      this.#pausedMs += this.#clock.now() - this.#pausedAt;
      this.#notify();
    };
  }

  /** Calls the listener when the clock pauses or resumes. Returns a function that removes it. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #notify(): void {
    for (const listener of [...this.#listeners]) listener();
  }
}
