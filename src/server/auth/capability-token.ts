import { timingSafeEqual } from 'node:crypto';
import { fingerprint, sha256, type TokenVerifier } from './token-check.ts';

/** Accepts the one token with this SHA-256. Digests are compared, in constant time: nothing tells how much of a guess is right. */
export function capabilityTokenVerifier(expected: Buffer): TokenVerifier {
  return (token) =>
    timingSafeEqual(sha256(token), expected)
      ? {
          kind: 'capabilityToken',
          tokenId: fingerprint(token),
          revocableId: null,
          limits: {},
          expiresAtMs: null,
        }
      : { problem: 'invalid websocket bearer token' };
}
