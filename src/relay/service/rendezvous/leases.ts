import type { Logger } from '../../../observability/log.ts';
import { LEASE_RENEWAL_BATCH, LEASE_RENEWAL_MS, LEASE_RETRY_MS } from '../limits.ts';
import type { Lease, NodeAddress, Store } from '../store/store.ts';

/** A lease of this node, and the callback for its loss. */
interface Held {
  readonly lease: Lease;
  lost(): void;
}

/**
 * Claims, renews and releases the leases of a node. It renews them while their executors are connected. While the store is
 * unreachable, leases stay, because the sockets stay. When it is reachable again, it decides which of them are still the newest.
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

  /** Claims a lease. Returns null when the registration is not current. Throws StoreUnavailableError. */
  claim(environmentId: string, registrationId: string): Promise<Lease | null> {
    return this.#store.claim(environmentId, registrationId, this.#node());
  }

  /** Renews a claimed lease from now on. Calls `lost` when a newer claim or registration has ended it. */
  hold(lease: Lease, lost: () => void): void {
    this.#held.set(lease, { lease, lost });
    if (this.#timer === null) this.#schedule(LEASE_RENEWAL_MS);
  }

  /** Releases a lease. If the store is unreachable, the lease expires by itself. */
  async release(lease: Lease): Promise<void> {
    this.#held.delete(lease);
    try {
      await this.#store.release(lease);
    } catch (error) {
      this.#log.debug('cannot release a lease, it will expire', { reason: (error as Error).message });
    }
  }

  close(): void {
    this.#closed = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
  }

  /** Renews all leases now. Returns false when the store was unreachable for some. */
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
      // A release may have happened during the renewal, which then has restored the lease.
      if (!this.#held.has(lease)) await this.release(lease);
      else if (!kept && this.#held.delete(lease)) lost();
      return true;
    } catch {
      return false;
    }
  }
}
