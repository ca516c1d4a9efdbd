import { randomUUID } from 'node:crypto';
import type { NoisePublicKey } from '../../noise/public-key.ts';
import {
  AUTHORIZATION_MS,
  LEASE_MS,
  MAX_AUTHORIZATIONS,
  MAX_ENVIRONMENTS,
  MAX_SUPERSEDED_KEYS,
} from '../limits.ts';
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

/** What outlives the process where there is a file for it. */
export interface StoredEnvironment {
  readonly registration: Registration;
  /** Hashes of the keys of replaced executors, the latest first. */
  readonly superseded: readonly string[];
}

/** The store of a relay that has one node. Registrations survive a restart where there is a file for them. */
export class MemoryStore implements Store {
  readonly available = true;
  readonly #file: RegistrationFile | null;
  readonly #now: () => number;
  /** The longest unused first. */
  readonly #environments = new Map<string, StoredEnvironment>();
  readonly #leases = new Map<string, { readonly lease: Lease; readonly endsAtMs: number }>();
  /** By their hashes; the oldest first, which is the first to end. */
  readonly #grants = new Map<string, Grant & { readonly endsAtMs: number }>();
  #epoch = 0;

  /** `now` is a clock that does not jump. */
  constructor(
    file: RegistrationFile | null = null,
    now: () => number = () => performance.now(),
    known: Iterable<StoredEnvironment> = [],
  ) {
    this.#file = file;
    this.#now = now;
    for (const environment of known) this.#remember(environment);
  }

  /** It is never away. */
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
    this.#remember(environment);
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
    const isOnline = held !== undefined && this.#now() < held.endsAtMs;
    return { registration: environment.registration, node: isOnline ? held.lease.node : null };
  }

  async grant(environmentId: string, authorization: string, grant: Grant): Promise<void> {
    const nowMs = this.#now();
    for (const [key, { endsAtMs }] of this.#grants) {
      if (endsAtMs > nowMs) break;
      this.#grants.delete(key);
    }
    if (this.#grants.size >= MAX_AUTHORIZATIONS) {
      throw new StoreUnavailableError('too many authorizations wait for their executors');
    }
    this.#grants.set(grantKey(environmentId, authorization), {
      ...grant,
      endsAtMs: nowMs + AUTHORIZATION_MS,
    });
  }

  async take(environmentId: string, authorization: string): Promise<Grant | null> {
    const key = grantKey(environmentId, authorization);
    const grant = this.#grants.get(key);
    this.#grants.delete(key);
    return grant === undefined || this.#now() >= grant.endsAtMs ? null : grant;
  }

  async close(): Promise<void> {
    await this.#file?.close();
  }

  #remember(environment: StoredEnvironment): void {
    const { environmentId } = environment.registration;
    if (!this.#environments.has(environmentId) && this.#environments.size >= MAX_ENVIRONMENTS) this.#forget();
    this.#touch(environment);
  }

  /** Makes room. An executor that is connected keeps its place. */
  #forget(): void {
    for (const environmentId of this.#environments.keys()) {
      if (this.#leases.has(environmentId)) continue;
      this.#environments.delete(environmentId);
      return;
    }
    throw new StoreUnavailableError('as many executors are connected as there is room for');
  }

  #touch(environment: StoredEnvironment): void {
    const { environmentId } = environment.registration;
    this.#environments.delete(environmentId);
    this.#environments.set(environmentId, environment);
  }

  #hold(lease: Lease): void {
    this.#leases.set(lease.registration.environmentId, { lease, endsAtMs: this.#now() + LEASE_MS });
  }
}

function grantKey(environmentId: string, authorization: string): string {
  return `${environmentId} ${hashAuthorization(authorization)}`;
}
