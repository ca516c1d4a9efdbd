import { realpath, stat } from 'node:fs/promises';
import { nativePathOfText, systemPath } from '../../files/native-path.ts';
import { restrictToRoot } from '../../files/root-restricted-file-system.ts';
import { FailureDelay } from '../../listener/failure-delay.ts';
import type { Revocations } from '../../listener/revocations.ts';
import type { ExecServerConfig } from '../config/config.ts';
import { type Access, FULL_ACCESS } from './access.ts';
import type { TokenLimits } from './claims.ts';
import type { Principal } from './principal.ts';
import { readSecretFile, readSharedSecret } from './secret-file.ts';
import { signedTokenVerifier } from './signed-token.ts';
import { capabilityTokenVerifier, sha256, type TokenVerifier, type VerifiedToken } from './token-verifier.ts';

/** The identity of a client, or why it is refused. */
type Admission = { readonly principal: Principal } | Refused;

export interface Refused {
  readonly refusal: string;
  /** How long the refusal is delayed, to slow down guessing. */
  readonly delayMs: number;
  /** Set for a token that is genuine but refused. */
  readonly tokenId?: string;
}

/** Admits or refuses a client by the Authorization header and the address of its request. */
export type Gate = (authorization: string | undefined, address: string | null) => Promise<Admission>;

/** Creates the gate of a server that requires tokens. Throws StartError when the token or secret cannot be read. */
export function createGate(config: ExecServerConfig, revoked: Pick<Revocations, 'has'> | null): Gate {
  const verify = createVerifier(config);
  const delay = new FailureDelay();
  return async (authorization, address) => {
    if (authorization === undefined) return refuse('missing websocket bearer token');
    const token = bearerToken(authorization);
    if (token === null) return refuse('invalid authorization header');
    const check = verify(token);
    // Only these can be guesses. Other requests carry no token, or a token with a valid signature.
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

/** The scheme is case-insensitive; white space around the token is ignored. */
function bearerToken(authorization: string): string | null {
  const token = /^bearer[ \t]+([\x20-\x7e\t]*)$/i.exec(authorization)?.[1]?.trim();
  return token || null;
}

async function admit(
  token: VerifiedToken,
  address: string | null,
  environmentId: string,
): Promise<Admission> {
  const { kind, owner, tokenId, revocableId, limits, expiresAtMs } = token;
  if (limits.environment !== undefined && limits.environment !== environmentId) {
    return refuse('websocket jwt environment mismatch');
  }
  const access = await accessWithin(limits, kind);
  if (access === null) return refuse('websocket jwt path is not a directory here, or leads through a link');
  return { principal: { kind, owner, tokenId, revocableId, address, access, expiresAtMs } };
}

function refuse(refusal: string, delayMs = 0): Refused {
  return { refusal, delayMs };
}

/**
 * The access that a token's limits leave. Null when the limits cannot be enforced here: the directory must exist and its path must be
 * its real path, because no symbolic link below it is followed.
 */
async function accessWithin(
  { scopes, path }: TokenLimits,
  kind: VerifiedToken['kind'],
): Promise<Access | null> {
  // Signed tokens separate their owners from each other. Only a token that says so may look at the processes of all.
  if (scopes === undefined) return { ...FULL_ACCESS, observe: kind === 'capabilityToken' };
  const files = scopes.includes('files') ? 'write' : scopes.includes('read-only') ? 'read' : 'none';
  const below = path === undefined ? null : nativePathOfText(path);
  if (below !== null && !(await isRealDirectory(systemPath(below)))) return null;
  return {
    exec: scopes.includes('exec'),
    observe: scopes.includes('observe'),
    files,
    net: scopes.includes('net'),
    metrics: scopes.includes('metrics'),
    below,
    restrict: (all) => (below === null ? all : restrictToRoot(all, below)),
  };
}

async function isRealDirectory(path: string | Buffer): Promise<boolean> {
  try {
    const real = await realpath(path, { encoding: 'buffer' });
    return real.equals(Buffer.from(path)) && (await stat(path)).isDirectory();
  } catch {
    return false;
  }
}
