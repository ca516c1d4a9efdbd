import { type Access, FULL_ACCESS } from './access.ts';

/** The identity of a client, as far as the server knows it. Nothing in it is secret: it may be logged and recorded. */
export interface Principal {
  readonly kind: 'anonymous' | 'capabilityToken' | 'signedToken' | 'harness';
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

/** A peer that connected through a relay, whose registry has authenticated it. */
export function harnessPrincipal(keyId: string): Principal {
  return { ...anonymousPrincipal(null), kind: 'harness', tokenId: keyId };
}

/** A peer that needs no token. */
export function anonymousPrincipal(address: string | null): Principal {
  return {
    kind: 'anonymous',
    tokenId: null,
    revocableId: null,
    address,
    access: FULL_ACCESS,
    expiresAtMs: null,
  };
}
