import { createHash } from 'node:crypto';
import type { NoisePublicKey, PublicKeyObject } from '../../noise/public-key.ts';

/** The current executor of an environment. */
export interface Registration {
  readonly environmentId: string;
  readonly registrationId: string;
  readonly executorKey: PublicKeyObject;
  /** {@link hashKey} of the key. */
  readonly keyHash: string;
}

/** A relay node and the base URL for harnesses. */
export interface NodeAddress {
  readonly id: string;
  readonly url: string;
}

/** A node's claim to the executor of an environment. Only the claim with the highest epoch is valid. */
export interface Lease {
  readonly registration: Registration;
  readonly node: NodeAddress;
  readonly epoch: number;
}

/** The result of a registration: a new environment, a returning executor, or a replacement. */
export type RegisterOutcome =
  | { readonly outcome: 'new' | 'returned' | 'replaced'; readonly registrationId: string }
  /** The key belongs to an executor that was replaced. */
  | { readonly outcome: 'superseded' };

/** The node of an environment's executor. Null while it is not connected. */
export interface Presence {
  readonly registration: Registration;
  readonly node: NodeAddress | null;
}

/** What an authorization permits: this harness key, for this registration. */
export interface Grant {
  readonly registrationId: string;
  readonly harnessKeyHash: string;
}

/**
 * The shared state of relay nodes: registrations, leases and pending authorizations. Each operation is atomic. All throw
 * StoreUnavailableError when the store is unreachable; the operation may or may not have been done then.
 */
export interface Store {
  /** Whether the store was reachable at the last check. */
  readonly available: boolean;
  /** Sets the function to call whenever the store becomes reachable again. It may have lost all data. */
  onReturn(listener: () => void): void;
  register(environmentId: string, executorKey: NoisePublicKey): Promise<RegisterOutcome>;
  /** Claims an executor for a node and ends the previous lease. Returns null when the registration is not current. */
  claim(environmentId: string, registrationId: string, node: NodeAddress): Promise<Lease | null>;
  /** Renews a lease. Returns false when a newer claim or registration has ended it. */
  renew(lease: Lease): Promise<boolean>;
  /** Releases a lease. Has no effect on a newer one. */
  release(lease: Lease): Promise<void>;
  /** Returns null for an environment that was never registered or was evicted. */
  find(environmentId: string): Promise<Presence | null>;
  /** Stores an authorization until it expires. */
  grant(environmentId: string, authorization: string, grant: Grant): Promise<void>;
  /** Removes and returns an authorization, so that it works once. Returns null for an unknown or expired one. */
  take(environmentId: string, authorization: string): Promise<Grant | null>;
  close(): Promise<void>;
}

/** The store is unreachable or full. A later attempt may succeed. */
export class StoreUnavailableError extends Error {
  override readonly name = 'StoreUnavailableError';
}

/** Hashes the bytes of a key, independent of its JSON form. */
export function hashKey({ x25519, mlkem768 }: NoisePublicKey): string {
  return createHash('sha256').update(x25519).update(mlkem768).digest('hex');
}

/** Hashes an authorization. The store keeps only the hash, so its readers cannot use the authorization. */
export function hashAuthorization(authorization: string): string {
  return createHash('sha256').update(authorization).digest('base64url');
}
