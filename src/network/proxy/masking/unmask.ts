import type { HeaderGroups } from '../http-message.ts';
import type { CredentialMasks, Mask } from './credential-masks.ts';
import type { RequestPlace } from './destination.ts';
import type { AuthMethod } from './provider.ts';

/**
 * Puts credentials in the place of masks, in requests to where they belong and in the headers that their providers name. Everything
 * else goes out with the mask. TRACE does in any case: it is answered with what was sent.
 */
export function unmask(
  masks: CredentialMasks,
  headers: HeaderGroups,
  place: RequestPlace,
  method: string,
): void {
  if (method.toUpperCase() === 'TRACE') return;
  const mayGo = ({ credential, destinations }: Mask) =>
    PRINTABLE.test(credential) && destinations.some((destination) => destination.covers(place));
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

/** What a text that is sent in one of these ways stands for: a credential, or itself. */
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

/** A header that was sent twice is left alone: nobody knows which of them counts. */
function onlyValue(headers: HeaderGroups, name: string): string | null {
  const values = headers.get(name)?.[1] ?? [];
  return values.length === 1 ? (values[0] ?? null) : null;
}

function setValue(headers: HeaderGroups, name: string, value: string): void {
  const header = headers.get(name);
  if (header !== undefined) header[1] = [value];
}

const PRINTABLE = /^[\x20-\x7e]+$/;
