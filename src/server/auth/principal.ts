import { type Access, FULL_ACCESS } from './access.ts';

/** Who stands behind a connection, as far as the server can tell. Nothing in it is secret: it may be logged and recorded. */
export interface Principal {
  readonly kind: 'anonymous' | 'capabilityToken' | 'signedToken' | 'harness';
  /** Tells tokens apart, or the keys of harnesses, and does not reveal them; null where there was none. */
  readonly tokenId: string | null;
  /** The id by which its token can be revoked; null where it has none. */
  readonly revocableId: string | null;
  /** The peer's IP address; null where the transport has none. */
  readonly address: string | null;
  readonly access: Access;
  /** When the token's time is up, in milliseconds since 1970; null where it has no end. */
  readonly expiresAtMs: number | null;
}

/** A peer that came through a relay, whose registry has let it in. */
export function harnessPrincipal(keyId: string): Principal {
  return { ...anonymousPrincipal(null), kind: 'harness', tokenId: keyId };
}

/** A peer that need not show a token. */
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
