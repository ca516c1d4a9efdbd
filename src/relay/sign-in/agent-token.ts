import { createPublicKey, verify } from 'node:crypto';
import { isObject } from '../../base/is-object.ts';
import { AGENT_TOKEN_LEEWAY_MS, PUBLIC_KEYS_TIMEOUT_MS } from '../limits.ts';
import { isSuccess } from '../outbound/http-exchange.ts';
import { CredentialError } from '../registry-auth.ts';
import { type AuthServices, parseObject } from './auth-services.ts';
import { decodeJwt, type Jwt } from './jwt.ts';

/** The claims of an agent's token that a request needs. */
export interface AgentClaims {
  readonly runtimeId: string;
  readonly accountId: string;
  /** Standard base64 of a PKCS #8 key. */
  readonly privateKey: string;
  readonly fedramp: boolean;
}

/** Where the keys come from that sign agents' tokens. */
interface KeySource {
  readonly services: AuthServices;
  readonly keysUrl: URL;
  readonly now: () => number;
}

/** Reads the claims without checking the signature. Throws CredentialError when one is missing. */
export function readAgentClaims(token: string): AgentClaims {
  const { claims } = decode(token);
  for (const [name, type] of Object.entries(REQUIRED_CLAIMS)) {
    if (!IS_VALID[type](claims[name])) throw new CredentialError(`the token has no valid claim '${name}'`);
  }
  return {
    runtimeId: claims.agent_runtime_id as string,
    accountId: claims.account_id as string,
    privateKey: claims.agent_private_key as string,
    fedramp: claims.chatgpt_account_is_fedramp as boolean,
  };
}

/** Checks the signature, issuer, audience and expiry. Rejects with CredentialError. */
export async function verifyAgentToken(token: string, keys: KeySource, signal: AbortSignal): Promise<void> {
  const { header, claims, signed, signature } = decode(token);
  const key = findKey(await fetchKeys(keys, signal), header.kid);
  if (header.alg !== 'RS256') throw new CredentialError('the token is not signed with RS256');
  if (!verifyRs256(key, signed, signature)) throw new CredentialError('the signature of the token is wrong');
  if (claims.iss !== ISSUER) throw new CredentialError(`the token is not issued by ${ISSUER}`);
  if (claims.aud !== AUDIENCE) throw new CredentialError(`the token is not for ${AUDIENCE}`);
  if ((claims.exp as number) * 1_000 + AGENT_TOKEN_LEEWAY_MS < keys.now()) {
    throw new CredentialError('the token has expired');
  }
}

const ISSUER = 'https://chatgpt.com/codex-backend/agent-identity';
const AUDIENCE = 'codex-app-server';

const REQUIRED_CLAIMS = {
  iss: 'string',
  aud: 'string',
  exp: 'seconds',
  iat: 'seconds',
  agent_runtime_id: 'string',
  agent_private_key: 'string',
  account_id: 'string',
  chatgpt_user_id: 'string',
  plan_type: 'string',
  chatgpt_account_is_fedramp: 'boolean',
} as const;

const IS_VALID = {
  string: (value: unknown) => typeof value === 'string',
  boolean: (value: unknown) => typeof value === 'boolean',
  seconds: (value: unknown) => Number.isSafeInteger(value) && (value as number) >= 0,
} as const;

function decode(token: string): Jwt {
  const jwt = decodeJwt(token);
  if (jwt === null) throw new CredentialError('the token is not a JSON Web Token');
  return jwt;
}

type Jwk = Readonly<Record<string, unknown>>;

async function fetchKeys(
  { services, keysUrl: url }: KeySource,
  signal: AbortSignal,
): Promise<readonly Jwk[]> {
  const request = { url, method: 'GET', timeoutMs: PUBLIC_KEYS_TIMEOUT_MS } as const;
  const { status, text } = await services.send(request, signal);
  if (!isSuccess(status)) {
    throw new CredentialError(`${url.host} answered the request for public keys with HTTP ${status}`);
  }
  const { keys } = parseObject(text) ?? {};
  if (!Array.isArray(keys)) throw new CredentialError(`the public keys of ${url.host} are not valid`);
  return keys.filter(isObject);
}

function findKey(keys: readonly Jwk[], id: unknown): Jwk {
  const key = typeof id === 'string' ? keys.find(({ kid }) => kid === id) : undefined;
  if (key === undefined) throw new CredentialError('the token is signed with an unknown key');
  return key;
}

function verifyRs256(jwk: Jwk, signed: Buffer, signature: Buffer): boolean {
  if (jwk.kty !== 'RSA') return false;
  try {
    return verify('RSA-SHA256', signed, createPublicKey({ key: jwk, format: 'jwk' }), signature);
  } catch {
    return false;
  }
}
