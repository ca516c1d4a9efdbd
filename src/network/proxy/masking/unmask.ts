import type { HeaderGroups } from '../http-message.ts';
import type { CredentialMasks, Mask } from './credential-masks.ts';
import type { RequestTarget } from './destination.ts';
import type { AuthMethod } from './provider.ts';

/**
 * Replaces masks by credentials in requests to their destinations, in the headers that their providers name. Everything else is sent
 * with the mask. So is every TRACE request, because its response repeats the request.
 */
export function unmask(
  masks: CredentialMasks,
  headers: HeaderGroups,
  target: RequestTarget,
  method: string,
): void {
  if (method.toUpperCase() === 'TRACE') return;
  const mayGo = ({ credential, destinations }: Mask) =>
    PRINTABLE.test(credential) && destinations.some((destination) => destination.covers(target));
  const authorization = onlyValue(headers, 'authorization');
  if (authorization !== null) {
    const credentialOf = (text: string, how: AuthMethod) => {
      const mask = masks.all.find((one) => one.text === text && one.provider.methods.has(how));
      return mask !== undefined && mayGo(mask) ? mask.credential : text;
    };
    setValue(headers, 'authorization', authorizationOf(authorization, credentialOf));
  }
  for (const mask of masks.all) {
    if (mask.provider.header === null) continue;
    const { name, prefix } = mask.provider.header;
    if (onlyValue(headers, name) === `${prefix}${mask.text}` && mayGo(mask)) {
      setValue(headers, name, `${prefix}${mask.credential}`);
    }
  }
}

/** Translates a text sent with this method to a credential, or returns it unchanged. */
type Translate = (text: string, how: AuthMethod) => string;

function authorizationOf(value: string, credentialOf: Translate): string {
  const [, scheme = '', space = '', rest = ''] = /^([A-Za-z]+)( +)(.*)$/s.exec(value) ?? [];
  const text = rest.trimEnd();
  const method = scheme.toLowerCase();
  if (method === 'basic') return `${scheme}${space}${basicOf(text, credentialOf)}`;
  if (method !== 'bearer' && method !== 'token') return value;
  return `${scheme}${space}${credentialOf(text, method)}`;
}

/** A credential may be the user, the password, or both with the colon between them. */
function basicOf(encoded: string, credentialOf: Translate): string {
  const decoded = Buffer.from(encoded, 'base64').toString('latin1');
  const whole = credentialOf(decoded, 'basic');
  const [, user, password] = /^([^:]*):(.*)$/s.exec(decoded) ?? [];
  if (whole !== decoded) return Buffer.from(whole, 'latin1').toString('base64');
  if (user === undefined || password === undefined) return encoded;
  const pair = `${credentialOf(user, 'basic')}:${credentialOf(password, 'basic')}`;
  return pair === decoded ? encoded : Buffer.from(pair, 'latin1').toString('base64');
}

/** Ignores a repeated header, because it is unknown which value the server uses. */
function onlyValue(headers: HeaderGroups, name: string): string | null {
  const values = headers.get(name)?.[1] ?? [];
  return values.length === 1 ? (values[0] ?? null) : null;
}

function setValue(headers: HeaderGroups, name: string, value: string): void {
  const header = headers.get(name);
  if (header !== undefined) header[1] = [value];
}

const PRINTABLE = /^[\x20-\x7e]+$/;
