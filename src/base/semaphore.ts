import { onAbort } from './abort.ts';

/** Limits of a {@link Semaphore} besides the number of permits. */
interface SemaphoreLimits {
  /** Bytes that all holders together may have. A single holder may exceed it. No limit when absent. */
  readonly maxBytes?: number;
  /** How many callers may wait. No limit when absent. */
  readonly maxWaiting?: number;
  /** The error for a caller that finds as many waiting as may wait. */
  readonly tooManyWaiting?: () => Error;
}

/** Counts permits, and optionally the bytes of their holders. Callers that find none wait, first come, first served. */
export class Semaphore {
  readonly #permits: number;
  readonly #limits: SemaphoreLimits;
  readonly #waiting = new Set<Waiter>();
  #taken = 0;
  #bytes = 0;
  #paused = false;
  #closed: { readonly error: Error } | null = null;

  constructor(permits: number, limits: SemaphoreLimits = {}) {
    this.#permits = permits;
    this.#limits = limits;
  }

  /** Resolves when the caller has a permit. Rejects, and takes none, when the signal aborts before or too many wait. */
  acquire(signal?: AbortSignal, bytes = 0): Promise<void> {
    if (this.#closed !== null) return Promise.reject(this.#closed.error);
    if (signal?.aborted) return Promise.reject(signal.reason);
    if (this.#waiting.size === 0 && this.#isFree(bytes)) {
      this.#take(bytes);
      return Promise.resolve();
    }
    const { maxWaiting = Number.POSITIVE_INFINITY, tooManyWaiting } = this.#limits;
    if (this.#waiting.size >= maxWaiting) {
      return Promise.reject(tooManyWaiting?.() ?? new Error(`more than ${maxWaiting} callers wait`));
    }
    return new Promise((resolve, reject) => {
      const leave = () => {
        stop?.();
        this.#waiting.delete(waiter);
        reject(signal?.reason);
        // The next caller may ask for fewer bytes than this one did.
        this.#admit();
      };
      const stop = signal && onAbort(signal, leave);
      const waiter: Waiter = {
        bytes,
        admit: () => {
          stop?.();
          resolve();
        },
        reject: (error) => {
          stop?.();
          reject(error);
        },
      };
      this.#waiting.add(waiter);
    });
  }

  /** Returns a permit. `bytes` is what it was acquired with. */
  release(bytes = 0): void {
    this.#taken--;
    this.#bytes -= bytes;
    this.#admit();
  }

  /** While paused, callers get no permit; holders keep theirs. */
  setPaused(paused: boolean): void {
    this.#paused = paused;
    this.#admit();
  }

  /** Rejects all callers that wait, and all later ones, with `error`. Holders keep their permits. */
  close(error: Error): void {
    this.#closed = { error };
    const waiting = [...this.#waiting];
    this.#waiting.clear();
    for (const waiter of waiting) waiter.reject(error);
  }

  #admit(): void {
    for (const waiter of this.#waiting) {
      if (!this.#isFree(waiter.bytes)) return;
      this.#waiting.delete(waiter);
      this.#take(waiter.bytes);
      waiter.admit();
    }
  }

  #take(bytes: number): void {
    this.#taken++;
    this.#bytes += bytes;
  }

  #isFree(bytes: number): boolean {
    if (this.#paused || this.#taken >= this.#permits) return false;
    const { maxBytes = Number.POSITIVE_INFINITY } = this.#limits;
    return this.#taken === 0 || this.#bytes + bytes <= maxBytes;
  }
}

interface Waiter {
  readonly bytes: number;
  admit(): void;
  reject(error: Error): void;
}
