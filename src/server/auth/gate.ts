import { resolve } from 'node:path';
import type { ExecServerConfig } from '../config.ts';
import { accessWithin } from './access-limits.ts';
import { capabilityTokenVerifier } from './capability-token.ts';
import { FailureDelay } from './failure-delay.ts';
import type { Principal } from './principal.ts';
import { readSecretFile } from './secret-file.ts';
import { signedTokenVerifier } from './signed-token.ts';
import { StartRefusedError } from './start-refusal.ts';
import { sha256, type TokenCheck, type TokenVerifier } from './token-check.ts';

/** Who a client is, or why it is not let in; `delayMs` is how long the refusal is to be held back. */
export type Admission = { readonly principal: Principal } | { readonly refusal: string; readonly delayMs: number };

/** Decides about a client by the Authorization header of its request and the address it comes from. */
export type Gate = (authorization: string | undefined, address: string | null) => Promise<Admission>;

/** The gate of a server that asks for tokens. Throws StartRefusedError when a token or secret cannot be had. */
export function createGate(config: ExecServerConfig): Gate {
  const verify = createVerifier(config);
  const delay = new FailureDelay();
  return async (authorization, address) => {
    const check = checkAuthorization(authorization, verify);
    const outcome = 'problem' in check ? check : await principalOf(check, address, config.environmentId);
    if ('principal' in outcome) return outcome;
    return { refusal: outcome.problem, delayMs: delay.failed(address) };
  };
}

function createVerifier(config: ExecServerConfig): TokenVerifier {
  if (config.wsAuth === 'capability-token') {
    const { wsTokenSha256 } = config;
    return capabilityTokenVerifier(
      wsTokenSha256 === '' ? sha256(readSecretFile(config.wsTokenFile)) : Buffer.from(wsTokenSha256.trim(), 'hex'),
    );
  }
  const secret = readSecretFile(config.wsSharedSecretFile);
  if (Buffer.byteLength(secret) < MIN_SHARED_SECRET_BYTES) {
    const path = resolve(config.wsSharedSecretFile);
    throw new StartRefusedError(
      `signed websocket bearer secret ${path} must be at least ${MIN_SHARED_SECRET_BYTES} bytes`,
    );
  }
  return signedTokenVerifier({
    secret,
    issuer: config.wsIssuer.trim(),
    audience: config.wsAudience.trim(),
    maxClockSkewSeconds: config.wsMaxClockSkewSeconds,
  });
}

/** As long as the digest, as HMAC wants it. */
const MIN_SHARED_SECRET_BYTES = 32;

function checkAuthorization(authorization: string | undefined, verify: TokenVerifier): TokenCheck {
  if (authorization === undefined) return { problem: 'missing websocket bearer token' };
  const token = /^bearer[ \t]+([\x21-\x7e](?:[\x20-\x7e\t]*[\x21-\x7e])?)[ \t]*$/i.exec(authorization)?.[1];
  return token === undefined ? { problem: 'invalid authorization header' } : verify(token);
}

async function principalOf(
  token: Exclude<TokenCheck, { problem: string }>,
  address: string | null,
  environmentId: string,
): Promise<{ principal: Principal } | { problem: string }> {
  const { kind, tokenId, limits, expiresAtMs } = token;
  if (limits.environment !== undefined && limits.environment !== environmentId) {
    return { problem: 'websocket jwt environment mismatch' };
  }
  const access = await accessWithin(limits);
  if (access === null) return { problem: 'websocket jwt path is not a directory here, or leads through a link' };
  return { principal: { kind, tokenId, address, access, expiresAtMs } };
}
