import { randomUUID } from 'node:crypto';
import type { NoisePublicKey } from '../../noise/public-key.ts';
import { LEASE_MS, MAX_ENVIRONMENTS, MAX_SUPERSEDED_KEYS } from '../limits.ts';
import { PendingGrants } from './pending-grants.ts';
import type { RegistrationFile } from './registration-file.ts';
import {
  type Grant,
  hashAuthorization,
  hashKey,
  type Lease,
  type NodeAddress,
  type Presence,
  type RegisterOutcome,
  type Registration,
  type Store,
  StoreUnavailableError,
} from './store.ts';

/** The part of an environment that a file store keeps across restarts. */
export interface StoredEnvironment {
  readonly registration: Registration;
  /** Key hashes of replaced executors, newest first. */
  readonly superseded: readonly string[];
}

/** The store of a relay with one node. With a file, registrations survive a restart. */
export class MemoryStore implements Store {
  readonly available = true;
  readonly #file: RegistrationFile | null;
  readonly #now: () => number;
  /** Ordered by last use, oldest first. */
  readonly #environments = new Map<string, StoredEnvironment>();
  readonly #leases = new Map<string, { readonly lease: Lease; readonly expiresAtMs: number }>();
  readonly #grants: PendingGrants;
  #epoch = 0;

  /** `now` is a monotonic clock in milliseconds. */
  constructor(
    file: RegistrationFile | null = null,
    now: () => number = () => performance.now(),
    known: Iterable<StoredEnvironment> = [],
  ) {
    this.#file = file;
    this.#now = now;
    this.#grants = new PendingGrants(now);
    for (const environment of known) this.#add(environment);
  }

  /** Never called: this store is always available. */
  onReturn(): void {}

  async register(environmentId: string, executorKey: NoisePublicKey): Promise<RegisterOutcome> {
    const keyHash = hashKey(executorKey);
    const before = this.#environments.get(environmentId);
    if (before?.registration.keyHash === keyHash) {
      this.#touch(before);
      return { outcome: 'returned', registrationId: before.registration.registrationId };
    }
    if (before?.superseded.includes(keyHash)) return { outcome: 'superseded' };
    const registrationId = randomUUID();
    const superseded = before === undefined ? [] : [before.registration.keyHash, ...before.superseded];
    const environment: StoredEnvironment = {
      registration: { environmentId, registrationId, executorKey: executorKey.toJSON(), keyHash },
      superseded: superseded.slice(0, MAX_SUPERSEDED_KEYS),
    };
    this.#add(environment);
    this.#leases.delete(environmentId);
    this.#file?.append(environment, this.#environments);
    return { outcome: before === undefined ? 'new' : 'replaced', registrationId };
  }

  async claim(environmentId: string, registrationId: string, node: NodeAddress): Promise<Lease | null> {
    const environment = this.#environments.get(environmentId);
    if (environment?.registration.registrationId !== registrationId) return null;
    this.#touch(environment);
    const lease = { registration: environment.registration, node, epoch: ++this.#epoch };
    this.#hold(lease);
    return lease;
  }

  async renew(lease: Lease): Promise<boolean> {
    const { environmentId, registrationId } = lease.registration;
    const environment = this.#environments.get(environmentId);
    const held = this.#leases.get(environmentId)?.lease;
    if (environment?.registration.registrationId !== registrationId) return false;
    if (held !== undefined && held.epoch !== lease.epoch) return false;
    this.#touch(environment);
    this.#hold(lease);
    return true;
  }

  async release({ registration, epoch }: Lease): Promise<void> {
    const { environmentId } = registration;
    if (this.#leases.get(environmentId)?.lease.epoch === epoch) this.#leases.delete(environmentId);
  }

  async find(environmentId: string): Promise<Presence | null> {
    const environment = this.#environments.get(environmentId);
    if (environment === undefined) return null;
    const held = this.#leases.get(environmentId);
    const isOnline = held !== undefined && this.#now() < held.expiresAtMs;
    return { registration: environment.registration, node: isOnline ? held.lease.node : null };
  }

  async grant(environmentId: string, authorization: string, grant: Grant): Promise<void> {
    this.#grants.add(environmentId, hashAuthorization(authorization), grant);
  }

  async take(environmentId: string, authorization: string): Promise<Grant | null> {
    return this.#grants.take(environmentId, hashAuthorization(authorization));
  }

  async close(): Promise<void> {
    await this.#file?.close();
  }

  #add(environment: StoredEnvironment): void {
    const { environmentId } = environment.registration;
    if (!this.#environments.has(environmentId) && this.#environments.size >= MAX_ENVIRONMENTS) this.#evict();
    this.#touch(environment);
  }

  /** Evicts the environment that has been unused longest and has no connected executor. */
  #evict(): void {
    for (const environmentId of this.#environments.keys()) {
      if (this.#leases.has(environmentId)) continue;
      this.#environments.delete(environmentId);
      return;
    }
    throw new StoreUnavailableError('too many executors are connected');
  }

  #touch(environment: StoredEnvironment): void {
    const { environmentId } = environment.registration;
    this.#environments.delete(environmentId);
    this.#environments.set(environmentId, environment);
  }

  #hold(lease: Lease): void {
    this.#leases.set(lease.registration.environmentId, { lease, expiresAtMs: this.#now() + LEASE_MS });
  }
}
