import { createHmac, timingSafeEqual } from 'node:crypto';
import { isObject } from '../../base/is-object.ts';
import { printable } from '../../protocol/errors.ts';
import { LIMITS_CLAIM, readLimits, type TokenLimits } from './claims.ts';
import { tokenOwner } from './principal.ts';
import { fingerprint, sha256, type TokenCheck, type TokenVerifier } from './token-verifier.ts';

/** The rules that signed tokens are checked against. */
export interface SignedTokenRules {
  readonly secret: string;
  /** Empty accepts any. */
  readonly issuer: string;
  /** Empty accepts any. */
  readonly audience: string;
  readonly maxClockSkewSeconds: number;
}

/** Accepts JSON web tokens with an HS256 signature by the shared secret, while they are valid. */
export function signedTokenVerifier(rules: SignedTokenRules, now: () => number = Date.now): TokenVerifier {
  return (token) => {
    const claims = verifiedClaims(token, rules.secret);
    if (claims === null) return { problem: 'invalid websocket jwt' };
    const problem = problemOf(claims, rules, now() / 1_000);
    return problem === null ? accepted(claims, token, rules) : { problem };
  };
}

/** Signs claims. The result is a token that the verifier accepts. */
export function signToken(claims: Readonly<Record<string, unknown>>, secret: string): string {
  const content = `${encode({ alg: 'HS256', typ: 'JWT' })}.${encode(claims)}`;
  return `${content}.${signatureOf(content, secret).toString('base64url')}`;
}

interface Claims {
  readonly exp: number;
  readonly nbf: number | null;
  readonly iss: string | null;
  readonly aud: readonly string[];
  readonly jti: string | null;
  readonly sub: string | null;
  readonly limits: TokenLimits;
}

/** Reads nothing but the algorithm before the signature is verified. */
function verifiedClaims(token: string, secret: string): Claims | null {
  const [header, payload, signature, ...more] = token.split('.');
  if (header === undefined || payload === undefined || signature === undefined || more.length > 0)
    return null;
  if (decode(header)?.alg !== 'HS256' || !isSignature(signature, `${header}.${payload}`, secret)) return null;
  const claims = decode(payload);
  return claims === null ? null : readClaims(claims);
}

function isSignature(text: string, content: string, secret: string): boolean {
  const given = Buffer.from(text, 'base64url');
  // Base64 decoding is lenient. A token with several spellings would have several fingerprints.
  if (given.toString('base64url') !== text) return false;
  const expected = signatureOf(content, secret);
  return given.length === expected.length && timingSafeEqual(given, expected);
}

function signatureOf(content: string, secret: string): Buffer {
  return createHmac('sha256', secret).update(content).digest();
}

/** Null when a claim has the wrong type. */
function readClaims(claims: Readonly<Record<string, unknown>>): Claims | null {
  const { exp, nbf = null, iss = null, aud = null, jti, sub } = claims;
  const limits = readLimits(claims[LIMITS_CLAIM]);
  if (!Number.isInteger(exp) || (nbf !== null && !Number.isInteger(nbf)) || limits === null) return null;
  if (iss !== null && typeof iss !== 'string') return null;
  const audiences = aud === null ? [] : Array.isArray(aud) ? aud : [aud];
  if (!audiences.every((audience) => typeof audience === 'string')) return null;
  const id = typeof jti === 'string' && jti !== '' ? jti : null;
  const subject = typeof sub === 'string' && sub !== '' ? sub : null;
  return {
    exp: exp as number,
    nbf: nbf as number | null,
    iss,
    aud: audiences,
    jti: id,
    sub: subject,
    limits,
  };
}

function problemOf(
  { exp, nbf, iss, aud }: Claims,
  rules: SignedTokenRules,
  nowSeconds: number,
): string | null {
  const { issuer, audience, maxClockSkewSeconds } = rules;
  if (nowSeconds > exp + maxClockSkewSeconds) return 'expired websocket jwt';
  if (nbf !== null && nowSeconds < nbf - maxClockSkewSeconds) return 'websocket jwt is not valid yet';
  if (issuer !== '' && iss !== issuer) return 'websocket jwt issuer mismatch';
  if (audience !== '' && !aud.includes(audience)) return 'websocket jwt audience mismatch';
  return null;
}

function accepted({ exp, jti, sub, limits }: Claims, token: string, rules: SignedTokenRules): TokenCheck {
  const tokenId = jti === null ? fingerprint(token) : printable(jti, MAX_SHOWN_ID);
  return {
    kind: 'signedToken',
    tokenId,
    owner: sub ?? tokenOwner(jti ?? sha256(token).toString('hex')),
    revocableId: jti,
    limits,
    expiresAtMs: (exp + rules.maxClockSkewSeconds) * 1_000,
  };
}

const MAX_SHOWN_ID = 64;
const BASE64URL = /^[A-Za-z0-9_-]+$/;

function encode(value: unknown): string {
  return Buffer.from(JSON.stringify(value)).toString('base64url');
}

/** The JSON object in a part of a token, or null. */
function decode(part: string): Readonly<Record<string, unknown>> | null {
  if (!BASE64URL.test(part)) return null;
  try {
    const value: unknown = JSON.parse(Buffer.from(part, 'base64url').toString());
    return isObject(value) ? value : null;
  } catch {
    return null;
  }
}
