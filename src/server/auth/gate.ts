import { FailureDelay } from '../../listener/failure-delay.ts';
import type { Revocations } from '../../listener/revocations.ts';
import type { ExecServerConfig } from '../config/config.ts';
import { accessWithin } from './access-limits.ts';
import { capabilityTokenVerifier } from './capability-token.ts';
import type { Principal } from './principal.ts';
import { readSecretFile, readSharedSecret } from './secret-file.ts';
import { signedTokenVerifier } from './signed-token.ts';
import { sha256, type TokenVerifier, type VerifiedToken } from './token-check.ts';

/** Who a client is, or why it is not let in; `delayMs` is how long the refusal is to be held back. */
export type Admission = { readonly principal: Principal } | Refused;

/** `tokenId` names a token that was genuine and is refused all the same. */
export interface Refused {
  readonly refusal: string;
  readonly delayMs: number;
  readonly tokenId?: string;
}

/** Decides about a client by the Authorization header of its request and the address it comes from. */
export type Gate = (authorization: string | undefined, address: string | null) => Promise<Admission>;

/** The gate of a server that asks for tokens, and accepts none of those that are revoked. Throws StartError when a token or secret cannot be had. */
export function createGate(config: ExecServerConfig, revoked: Pick<Revocations, 'has'> | null): Gate {
  const verify = createVerifier(config);
  const delay = new FailureDelay();
  return async (authorization, address) => {
    if (authorization === undefined) return refuse('missing websocket bearer token');
    const token = bearerToken(authorization);
    if (token === null) return refuse('invalid authorization header');
    const check = verify(token);
    // Only these may be guesses: the others carry no token, or one that we signed.
    if ('problem' in check) return refuse(check.problem, delay.failed(address));
    if (check.revocableId !== null && revoked?.has(check.revocableId)) {
      return { ...refuse('revoked websocket jwt'), tokenId: check.tokenId };
    }
    return await admit(check, address, config.environmentId);
  };
}

function createVerifier(config: ExecServerConfig): TokenVerifier {
  if (config.wsAuth === 'capability-token') {
    const { wsTokenSha256 } = config;
    return capabilityTokenVerifier(
      wsTokenSha256 === ''
        ? sha256(readSecretFile(config.wsTokenFile))
        : Buffer.from(wsTokenSha256.trim(), 'hex'),
    );
  }
  return signedTokenVerifier({
    secret: readSharedSecret(config.wsSharedSecretFile),
    issuer: config.wsIssuer.trim(),
    audience: config.wsAudience.trim(),
    maxClockSkewSeconds: config.wsMaxClockSkewSeconds,
  });
}

/** The scheme may be in any case; blanks around the token do not count. */
function bearerToken(authorization: string): string | null {
  const token = /^bearer[ \t]+([\x20-\x7e\t]*)$/i.exec(authorization)?.[1]?.trim();
  return token || null;
}

async function admit(
  token: VerifiedToken,
  address: string | null,
  environmentId: string,
): Promise<Admission> {
  const { kind, tokenId, revocableId, limits, expiresAtMs } = token;
  if (limits.environment !== undefined && limits.environment !== environmentId) {
    return refuse('websocket jwt environment mismatch');
  }
  const access = await accessWithin(limits);
  if (access === null) return refuse('websocket jwt path is not a directory here, or leads through a link');
  return { principal: { kind, tokenId, revocableId, address, access, expiresAtMs } };
}

function refuse(refusal: string, delayMs = 0): Refused {
  return { refusal, delayMs };
}
