import type { Revocations } from '../../../listener/revocations.ts';
import type { Seal } from './sealed-text.ts';

/** Roles of tokens: an executor or harness of one environment, or a reader of metrics. */
export const TOKEN_ROLES = ['executor', 'harness', 'metrics'] as const;
export type TokenRole = (typeof TOKEN_ROLES)[number];

/** The claims of a token. */
export interface TokenClaims {
  /** Identifies the token in logs and in the revocation list. */
  readonly id: string;
  readonly role: TokenRole;
  /** Null for a reader of metrics. */
  readonly environmentId: string | null;
  /** In seconds since 1970; null without an expiry. */
  readonly expiresAt: number | null;
}

/** A token or ticket that is no longer valid. */
export interface InvalidCredential {
  readonly problem: 'expired' | 'revoked';
  readonly tokenId: string;
}

/** Checks the tokens of executors, harnesses and metrics readers. */
export class AccessTokens {
  readonly #seal: Seal;
  readonly #revocations: Revocations;
  readonly #now: () => number;

  constructor(seal: Seal, revocations: Revocations, now: () => number) {
    this.#seal = seal;
    this.#revocations = revocations;
    this.#now = now;
  }

  /** Returns null for a text that this relay did not issue. It may be a guess. */
  check(token: string): TokenClaims | InvalidCredential | null {
    const sealed = this.#seal.read('token', token);
    if (sealed === null) return null;
    const claims = sealed as unknown as TokenClaims;
    const { id: tokenId, expiresAt } = claims;
    if (expiresAt !== null && this.#now() >= expiresAt * 1_000) return { problem: 'expired', tokenId };
    return this.#revocations.has(tokenId) ? { problem: 'revoked', tokenId } : claims;
  }
}

/** Creates a token. */
export function writeToken(seal: Seal, { id, role, environmentId, expiresAt }: TokenClaims): string {
  return seal.write('token', { id, role, environmentId, expiresAt });
}

/** Returns the bearer token of an Authorization header, or null. The scheme is case-insensitive. */
export function bearerToken(authorization: string | undefined): string | null {
  return /^bearer[ \t]+([\x21-\x7e]+)[ \t]*$/i.exec(authorization ?? '')?.[1] ?? null;
}
