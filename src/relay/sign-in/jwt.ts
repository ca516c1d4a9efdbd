import { isObject } from '../../base/is-object.ts';
import { parseObject } from './auth-services.ts';

/** The parts of a JSON Web Token. The signature is not checked. */
export interface Jwt {
  readonly header: Readonly<Record<string, unknown>>;
  readonly claims: Readonly<Record<string, unknown>>;
  /** The bytes that the signature covers. */
  readonly signed: Buffer;
  readonly signature: Buffer;
}

/** Decodes a token; null when it is not a JSON Web Token. */
export function decodeJwt(token: string): Jwt | null {
  const parts = token.split('.');
  if (parts.length !== 3 || parts.some((part) => !/^[A-Za-z0-9_-]+$/.test(part))) return null;
  const [head = '', payload = '', signature = ''] = parts;
  const claims = parseObject(decoded(payload).toString());
  if (claims === null) return null;
  return {
    header: parseObject(decoded(head).toString()) ?? {},
    claims,
    signed: Buffer.from(`${head}.${payload}`),
    signature: decoded(signature),
  };
}

/** The expiry of a token in milliseconds since 1970; null when it has none. */
export function expiryOf(token: string): number | null {
  const exp = decodeJwt(token)?.claims.exp;
  return typeof exp === 'number' && Number.isFinite(exp) ? exp * 1_000 : null;
}

/** The claims about a ChatGPT account in a token. */
interface AccountClaims {
  readonly accountId: string | null;
  readonly userId: string | null;
  readonly fedramp: boolean;
}

export function accountClaims({ claims }: Jwt): AccountClaims {
  const found = claims['https://api.openai.com/auth'];
  const account = isObject(found) ? found : {};
  return {
    accountId: textOf(account.chatgpt_account_id),
    userId: textOf(account.chatgpt_user_id) ?? textOf(account.user_id),
    fedramp: account.chatgpt_account_is_fedramp === true,
  };
}

function textOf(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value : null;
}

function decoded(part: string): Buffer {
  return Buffer.from(part, 'base64url');
}
