import type { Logger } from '../../../observability/log.ts';
import { LEASE_RENEWAL_BATCH, LEASE_RENEWAL_MS, LEASE_RETRY_MS } from '../limits.ts';
import type { Lease, NodeAddress, Store } from '../store/store.ts';

/** A lease that this node has, and whom to tell when it is lost. */
interface Held {
  readonly lease: Lease;
  lost(): void;
}

/**
 * The leases of a node: claims them, renews them while their executors are connected, and gives them up. While the store cannot be
 * reached they stay, because the sockets do; when it can be again, it decides which of them are still the newest.
 */
export class Leases {
  readonly #store: Store;
  readonly #node: () => NodeAddress;
  readonly #log: Logger;
  readonly #held = new Map<Lease, Held>();
  #timer: NodeJS.Timeout | null = null;
  #closed = false;

  constructor(store: Store, node: () => NodeAddress, log: Logger) {
    this.#store = store;
    this.#node = node;
    this.#log = log;
    store.onReturn(() => void this.#tick());
  }

  get count(): number {
    return this.#held.size;
  }

  /** Null when the registration is not the current one. Throws StoreUnavailableError. */
  claim(environmentId: string, registrationId: string): Promise<Lease | null> {
    return this.#store.claim(environmentId, registrationId, this.#node());
  }

  /** Renews a claimed lease from now on. `lost` is called when a newer claim or registration has ended it. */
  hold(lease: Lease, lost: () => void): void {
    this.#held.set(lease, { lease, lost });
    if (this.#timer === null) this.#schedule(LEASE_RENEWAL_MS);
  }

  /** Gives a lease up. A store that cannot be told finds out when its time is over. */
  async release(lease: Lease): Promise<void> {
    this.#held.delete(lease);
    try {
      await this.#store.release(lease);
    } catch (error) {
      this.#log.debug('a lease runs out by itself', { reason: (error as Error).message });
    }
  }

  close(): void {
    this.#closed = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
  }

  /** Renews all of them now. False when the store could not be asked about some. */
  async renewAll(): Promise<boolean> {
    let reached = true;
    const all = [...this.#held.values()];
    for (let start = 0; start < all.length; start += LEASE_RENEWAL_BATCH) {
      const batch = all.slice(start, start + LEASE_RENEWAL_BATCH);
      const results = await Promise.all(batch.map((held) => this.#renew(held)));
      reached &&= results.every((result) => result);
    }
    return reached;
  }

  #schedule(delayMs: number): void {
    if (this.#timer !== null) clearTimeout(this.#timer);
    if (this.#closed) return;
    this.#timer = setTimeout(() => void this.#tick(), delayMs);
    this.#timer.unref();
  }

  async #tick(): Promise<void> {
    const reached = await this.renewAll();
    this.#schedule(reached ? LEASE_RENEWAL_MS : LEASE_RETRY_MS);
  }

  async #renew({ lease, lost }: Held): Promise<boolean> {
    try {
      const kept = await this.#store.renew(lease);
      // It may have been given up meanwhile, and the renewal may have brought it back.
      if (!this.#held.has(lease)) await this.release(lease);
      else if (!kept && this.#held.delete(lease)) lost();
      return true;
    } catch {
      return false;
    }
  }
}
