import type { Revocations } from '../../../listener/revocations.ts';
import type { Seal } from './sealed-text.ts';

/** What the bearer of a token may be: an executor or a harness of one environment, or a reader of metrics. */
export const TOKEN_ROLES = ['executor', 'harness', 'metrics'] as const;
export type TokenRole = (typeof TOKEN_ROLES)[number];

/** What a token says. */
export interface TokenClaims {
  /** Names the token in logs and in the list of revoked ones. */
  readonly id: string;
  readonly role: TokenRole;
  /** Null for a reader of metrics. */
  readonly environmentId: string | null;
  /** In seconds since 1970; null for one without end. */
  readonly expiresAt: number | null;
}

/** A token that was good once, or what was given for it. */
export interface NoLongerGood {
  readonly problem: 'expired' | 'revoked';
  readonly tokenId: string;
}

/** Makes and checks the tokens that executors and harnesses show. */
export class AccessTokens {
  readonly #seal: Seal;
  readonly #revocations: Revocations;
  readonly #now: () => number;

  constructor(seal: Seal, revocations: Revocations, now: () => number) {
    this.#seal = seal;
    this.#revocations = revocations;
    this.#now = now;
  }

  /** Null for a text that is no token of this relay, and may be a guess. */
  check(token: string): TokenClaims | NoLongerGood | null {
    const sealed = this.#seal.read('token', token);
    if (sealed === null) return null;
    const claims = sealed as unknown as TokenClaims;
    const { id: tokenId, expiresAt } = claims;
    if (expiresAt !== null && this.#now() >= expiresAt * 1_000) return { problem: 'expired', tokenId };
    return this.#revocations.has(tokenId) ? { problem: 'revoked', tokenId } : claims;
  }
}

/** Makes a token. */
export function writeToken(seal: Seal, { id, role, environmentId, expiresAt }: TokenClaims): string {
  return seal.write('token', { id, role, environmentId, expiresAt });
}

/** The token of an Authorization header; null where it carries none. The scheme may be in any case. */
export function bearerToken(authorization: string | undefined): string | null {
  return /^bearer[ \t]+([\x21-\x7e]+)[ \t]*$/i.exec(authorization ?? '')?.[1] ?? null;
}
