import { type Access, FULL_ACCESS } from './access.ts';

/** The identity of a client, as far as the server knows it. Nothing in it is secret: it may be logged and recorded. */
export interface Principal {
  readonly kind: 'anonymous' | 'capabilityToken' | 'signedToken' | 'harness';
  /** Whom the processes of its sessions belong to. */
  readonly owner: string;
  /** Distinguishes tokens, or the keys of harnesses, without revealing them; null without a token or key. */
  readonly tokenId: string | null;
  /** The id that a revocation list names; null for a token without one. */
  readonly revocableId: string | null;
  /** The peer's IP address; null when the transport has none. */
  readonly address: string | null;
  readonly access: Access;
  /** When the token expires, in milliseconds since 1970; null when it does not. */
  readonly expiresAtMs: number | null;
}

/** The owner of processes where clients have no tokens, or all the same one. */
export const LOCAL_OWNER = 'local';

/** The one owner of all processes that were started through a relay. A harness may have a new key for each connection. */
const RELAY_OWNER = 'relay';

const TOKEN_OWNER_PREFIX = 'token:';

/** The owner for a token without a subject. */
export function tokenOwner(tokenId: string): string {
  return `${TOKEN_OWNER_PREFIX}${tokenId}`;
}

/**
 * Whether a client may resume the session of an owner. The successor of a token without a subject is another owner, and may still resume
 * a session whose id it knows.
 */
export function sameOwner(owner: string, other: string): boolean {
  return owner === other || (owner.startsWith(TOKEN_OWNER_PREFIX) && other.startsWith(TOKEN_OWNER_PREFIX));
}

/** A peer that connected through a relay, whose registry has authenticated it. */
export function harnessPrincipal(keyId: string): Principal {
  return { ...anonymousPrincipal(null), kind: 'harness', owner: RELAY_OWNER, tokenId: keyId };
}

/** A peer that needs no token. */
export function anonymousPrincipal(address: string | null): Principal {
  return {
    kind: 'anonymous',
    owner: LOCAL_OWNER,
    tokenId: null,
    revocableId: null,
    address,
    access: FULL_ACCESS,
    expiresAtMs: null,
  };
}
