import { createHash } from 'node:crypto';
import type { TokenLimits } from './claims.ts';

/** What a token proved, or why it was not accepted, in words that the client may read. */
export type TokenCheck = VerifiedToken | { readonly problem: string };

export interface VerifiedToken {
  readonly kind: 'capabilityToken' | 'signedToken';
  readonly tokenId: string;
  /** The id by which the token can be revoked; null where it has none. */
  readonly revocableId: string | null;
  readonly limits: TokenLimits;
  /** Null for a token that does not expire. */
  readonly expiresAtMs: number | null;
}

/** Decides about the token of one request. */
export type TokenVerifier = (token: string) => TokenCheck;

export function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

/** A few digits that tell tokens apart and are of no use to whoever wants to guess one. */
export function fingerprint(token: string): string {
  return sha256(token).toString('hex').slice(0, 8);
}
