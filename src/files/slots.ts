/** A number of places. Who finds none waits, in the order of coming. */
export class Slots {
  readonly #waiting = new Set<() => void>();
  #free: number;

  constructor(count: number) {
    this.#free = count;
  }

  /** Resolves when a place is taken; rejects, and takes none, when the signal is aborted before. */
  take(signal: AbortSignal): Promise<void> {
    if (signal.aborted) return Promise.reject(signal.reason);
    if (this.#free > 0) {
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
    const [next] = this.#waiting;
    if (next === undefined) {
      this.#free++;
      return;
    }
    this.#waiting.delete(next);
    next();
  }
}
