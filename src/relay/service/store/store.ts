import { createHash } from 'node:crypto';
import type { NoisePublicKey, PublicKeyObject } from '../../noise/public-key.ts';

/** The executor that an environment has at present. */
export interface Registration {
  readonly environmentId: string;
  readonly registrationId: string;
  readonly executorKey: PublicKeyObject;
  /** {@link hashKey} of the key. */
  readonly keyHash: string;
}

/** A node of the relay, and the URL below which harnesses reach it. */
export interface NodeAddress {
  readonly id: string;
  readonly url: string;
}

/** A node's claim to have the executor of an environment. The higher epoch is the newer claim, and the only one that counts. */
export interface Lease {
  readonly registration: Registration;
  readonly node: NodeAddress;
  readonly epoch: number;
}

/** What became of a registration: a new environment, the same executor again, or another one in its place. */
export type RegisterOutcome =
  | { readonly outcome: 'new' | 'returned' | 'replaced'; readonly registrationId: string }
  /** The key is that of an executor which was replaced. */
  | { readonly outcome: 'superseded' };

/** Where an environment's executor is; `node` is null while it is not connected. */
export interface Presence {
  readonly registration: Registration;
  readonly node: NodeAddress | null;
}

/** What an authorization is good for. */
export interface Grant {
  readonly registrationId: string;
  readonly harnessKeyHash: string;
}

/**
 * What the nodes of a relay know together: who is registered, which node has whom, and which authorizations are out. Each operation is
 * atomic. All throw StoreUnavailableError when the store cannot be asked; then nothing is known about what was done.
 */
export interface Store {
  /** Whether it can be asked, as far as is known. */
  readonly available: boolean;
  /** Has a function called whenever the store can be asked again after it could not. It may have forgotten everything. */
  onReturn(listener: () => void): void;
  register(environmentId: string, executorKey: NoisePublicKey): Promise<RegisterOutcome>;
  /** Claims an executor for a node, in place of whoever has it. Null when the registration is not the current one. */
  claim(environmentId: string, registrationId: string, node: NodeAddress): Promise<Lease | null>;
  /** Prolongs a lease. False when a newer claim or registration has ended it. */
  renew(lease: Lease): Promise<boolean>;
  /** Gives a lease up; without effect on a newer one. */
  release(lease: Lease): Promise<void>;
  /** Null for an environment that was never registered, or is forgotten. */
  find(environmentId: string): Promise<Presence | null>;
  /** Keeps an authorization for as long as it is good. */
  grant(environmentId: string, authorization: string, grant: Grant): Promise<void>;
  /** Takes an authorization: nobody gets it twice. Null for one that is not known here, or no longer. */
  take(environmentId: string, authorization: string): Promise<Grant | null>;
  close(): Promise<void>;
}

/** The store cannot be asked now, or has no room. Trying again later may succeed. */
export class StoreUnavailableError extends Error {
  override readonly name = 'StoreUnavailableError';
}

/** Tells keys apart, by what they say and not by how they are written. */
export function hashKey({ x25519, mlkem768 }: NoisePublicKey): string {
  return createHash('sha256').update(x25519).update(mlkem768).digest('hex');
}

/** What a store keeps in place of an authorization, so that who reads the store cannot use it. */
export function hashAuthorization(authorization: string): string {
  return createHash('sha256').update(authorization).digest('base64url');
}
