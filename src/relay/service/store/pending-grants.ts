import { AUTHORIZATION_MS, MAX_AUTHORIZATIONS, MAX_AUTHORIZATIONS_PER_ENVIRONMENT } from '../limits.ts';
import type { Grant } from './store.ts';

/** The authorizations of a store in memory that wait for their harness. One environment cannot use up those of the others. */
export class PendingGrants {
  readonly #now: () => number;
  /** By environment and hash; those of an environment oldest first, which is also the order of expiry. */
  readonly #environments = new Map<string, Map<string, TimedGrant>>();
  #count = 0;

  /** `now` is a monotonic clock in milliseconds. */
  constructor(now: () => number) {
    this.#now = now;
  }

  add(environmentId: string, hash: string, grant: Grant): void {
    const nowMs = this.#now();
    const before = this.#environments.get(environmentId);
    if (before !== undefined) {
      this.#removeExpired(environmentId, before, nowMs);
      if (before.size >= MAX_AUTHORIZATIONS_PER_ENVIRONMENT) this.#removeOldest(environmentId, before);
    }
    if (this.#count >= MAX_AUTHORIZATIONS) this.#evict(nowMs);
    const grants = this.#environments.get(environmentId) ?? new Map<string, TimedGrant>();
    this.#environments.set(environmentId, grants);
    grants.set(hash, { ...grant, expiresAtMs: nowMs + AUTHORIZATION_MS });
    this.#count++;
  }

  /** Removes and returns the authorization. Returns null for an unknown or expired one. */
  take(environmentId: string, hash: string): Grant | null {
    const grants = this.#environments.get(environmentId);
    const grant = grants?.get(hash);
    if (grants === undefined || grant === undefined) return null;
    this.#remove(environmentId, grants, hash);
    return this.#now() >= grant.expiresAtMs ? null : grant;
  }

  /** Removes all expired authorizations. If there are none, the environment with the most loses its oldest. */
  #evict(nowMs: number): void {
    for (const [environmentId, grants] of this.#environments)
      this.#removeExpired(environmentId, grants, nowMs);
    if (this.#count < MAX_AUTHORIZATIONS) return;
    const [first, ...others] = this.#environments;
    const [environmentId, grants] = others.reduce(
      (most, one) => (one[1].size > most[1].size ? one : most),
      first!,
    );
    this.#removeOldest(environmentId, grants);
  }

  #removeExpired(environmentId: string, grants: Map<string, TimedGrant>, nowMs: number): void {
    for (const [hash, { expiresAtMs }] of grants) {
      if (expiresAtMs > nowMs) return;
      this.#remove(environmentId, grants, hash);
    }
  }

  #removeOldest(environmentId: string, grants: Map<string, TimedGrant>): void {
    const [oldest] = grants.keys();
    if (oldest !== undefined) this.#remove(environmentId, grants, oldest);
  }

  #remove(environmentId: string, grants: Map<string, TimedGrant>, hash: string): void {
    if (grants.delete(hash)) this.#count--;
    if (grants.size === 0) this.#environments.delete(environmentId);
  }
}

type TimedGrant = Grant & { readonly expiresAtMs: number };
