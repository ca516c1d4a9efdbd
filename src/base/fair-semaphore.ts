import { onAbort } from './abort.ts';
import { FairShares, type Owner, type SharedUnits } from './fair-shares.ts';

interface FairSemaphoreOptions {
  /** What the permits are for, for errors. */
  readonly name?: string;
  /** How many callers may wait; each owner has a fair share of them. No limit when absent. */
  readonly maxWaiting?: number;
  /** The error for a caller that may not wait. */
  readonly tooManyWaiting?: () => Error;
}

/**
 * Permits that several owners share fairly, see {@link FairShares}. Callers wait first come, first served, but a caller whose owner
 * holds its share does not keep others waiting.
 */
export class FairSemaphore {
  readonly #permits: FairShares;
  readonly #queue: FairShares;
  readonly #tooManyWaiting: () => Error;
  readonly #waiting = new Set<Waiter>();

  constructor(permits: number, options: FairSemaphoreOptions = {}) {
    const { maxWaiting = Number.POSITIVE_INFINITY, name } = options;
    this.#permits = new FairShares(permits, name, () => this.#admit());
    this.#queue = new FairShares(maxWaiting);
    this.#tooManyWaiting = options.tooManyWaiting ?? (() => new Error('too many callers wait'));
  }

  /** Resolves to a permit, which the owner leaves. Rejects with the reason of `signal`, and when too many wait. */
  async acquire(owner: Owner, signal?: AbortSignal): Promise<SharedUnits> {
    signal?.throwIfAborted();
    const permit = this.#permits.take(owner);
    if (permit !== null) return permit;
    const queued = this.#queue.take(owner);
    if (queued === null) throw this.#tooManyWaiting();
    try {
      return await this.#wait(owner, signal);
    } finally {
      queued.leave(owner);
    }
  }

  /** Why the owner has to wait, as a clause. */
  refusal(owner: Owner): string {
    return this.#permits.refusal(owner);
  }

  #wait(owner: Owner, signal: AbortSignal | undefined): Promise<SharedUnits> {
    return new Promise((resolve, reject) => {
      const stop =
        signal &&
        onAbort(signal, () => {
          this.#waiting.delete(waiter);
          reject(signal.reason);
        });
      const waiter: Waiter = {
        owner,
        admit: (permit) => {
          stop?.();
          resolve(permit);
        },
      };
      this.#waiting.add(waiter);
    });
  }

  #admit(): void {
    for (const waiter of this.#waiting) {
      const permit = this.#permits.take(waiter.owner);
      if (permit === null) continue;
      this.#waiting.delete(waiter);
      waiter.admit(permit);
    }
  }
}

interface Waiter {
  readonly owner: Owner;
  admit(permit: SharedUnits): void;
}
