import type { Clock } from './clock.ts';

/** Time that stands still while somebody is asked: a window that is measured with it grows by every pause. */
export class PausableTime {
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

  /** Stops the time until every pause has been ended. Returns what ends this one; ending it twice does nothing. */
  pause(): () => void {
    let open = true;
    if (this.#pauses++ === 0) {
      this.#pausedAt = this.#clock.now();
      this.#tell();
    }
    return () => {
      if (!open) return;
      open = false;
      if (--this.#pauses > 0) return;
      this.#pausedMs += this.#clock.now() - this.#pausedAt;
      this.#tell();
    };
  }

  /** Called when the time stops or goes on. Returns what ends it. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #tell(): void {
    for (const listener of [...this.#listeners]) listener();
  }
}
