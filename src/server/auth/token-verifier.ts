import { createHash, timingSafeEqual } from 'node:crypto';
import type { TokenLimits } from './claims.ts';
import { LOCAL_OWNER } from './principal.ts';

/** A verified token, or why it was rejected. The client receives the text. */
export type TokenCheck = VerifiedToken | { readonly problem: string };

export interface VerifiedToken {
  readonly kind: 'capabilityToken' | 'signedToken';
  readonly tokenId: string;
  /** The owner of what its sessions start. */
  readonly owner: string;
  /** The id that a revocation list names; null for a token without one. */
  readonly revocableId: string | null;
  readonly limits: TokenLimits;
  /** Null for a token that does not expire. */
  readonly expiresAtMs: number | null;
}

/** Verifies the token of one request. */
export type TokenVerifier = (token: string) => TokenCheck;

export function sha256(text: string): Buffer {
  return createHash('sha256').update(text).digest();
}

/** A short hash that distinguishes tokens in logs and does not help to guess one. */
export function fingerprint(token: string): string {
  return sha256(token).toString('hex').slice(0, 8);
}

/** Accepts the token with this SHA-256. Compares digests in constant time, so that timing does not reveal how much of a guess matches. */
export function capabilityTokenVerifier(expected: Buffer): TokenVerifier {
  return (token) =>
    timingSafeEqual(sha256(token), expected)
      ? {
          kind: 'capabilityToken',
          owner: LOCAL_OWNER,
          tokenId: fingerprint(token),
          revocableId: null,
          limits: {},
          expiresAtMs: null,
        }
      : { problem: 'invalid websocket bearer token' };
}
