/** A number of places. Who finds none waits, in the order of coming. */
export class Slots {
  readonly #waiting = new Set<() => void>();
  #free: number;
  #held = false;

  constructor(count: number) {
    this.#free = count;
  }

  /** Resolves when a place is taken; rejects, and takes none, when the signal is aborted before. */
  take(signal: AbortSignal): Promise<void> {
    if (signal.aborted) return Promise.reject(signal.reason);
    if (this.#free > 0 && !this.#held) {
      this.#free--;
      return Promise.resolve();
    }
    return new Promise((resolve, reject) => {
      const leave = () => {
        this.#waiting.delete(proceed);
        reject(signal.reason);
      };
      const proceed = () => {
        signal.removeEventListener('abort', leave);
        resolve();
      };
      this.#waiting.add(proceed);
      signal.addEventListener('abort', leave, { once: true });
    });
  }

  /** Gives a place back: to the one who waits longest, if there is one. */
  release(): void {
    this.#free++;
    this.#fill();
  }

  /** While held, nobody gets a place; those who have one keep it. */
  setHeld(held: boolean): void {
    this.#held = held;
    this.#fill();
  }

  #fill(): void {
    for (const next of this.#waiting) {
      if (this.#free === 0 || this.#held) return;
      this.#free--;
      this.#waiting.delete(next);
      next();
    }
  }
}
