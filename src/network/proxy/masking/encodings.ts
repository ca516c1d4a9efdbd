import { MIN_ENCODED_LENGTH } from './limits.ts';

/**
 * How a text is written inside of URLs, of JSON, and of what is read a byte per character, each as a function, so that another one can
 * be written in the same way.
 */
export const SPELLINGS: readonly ((text: string) => string)[] = [
  (text) => text,
  percentEncoded,
  (text) => percentEncoded(text).replace(/%[0-9A-F]{2}/g, (code) => code.toLowerCase()),
  (text) => JSON.stringify(text).slice(1, -1),
  (text) => Buffer.from(text).toString('latin1'),
];

/** What stands in a text in base64, as far as it may hold a credential. */
export function decodedParts(text: string): string[] {
  return (text.match(BASE64) ?? []).flatMap((run) => BEGINNINGS.map((from) => decoded(run.slice(from))));
}

/** The same text with everything changed that stands in it in base64, encoded as it was. */
export function changedInside(text: string, change: (part: string) => string): string {
  return text.replace(BASE64, (run) =>
    BEGINNINGS.reduce((now, from) => now.slice(0, from) + changedBase64(now.slice(from), change), run),
  );
}

function changedBase64(encoded: string, change: (part: string) => string): string {
  const part = decoded(encoded);
  const changed = change(part);
  if (changed === part) return encoded;
  const bytes = Buffer.from(changed, 'latin1');
  const bare = bytes.toString(/[-_]/.test(encoded) ? 'base64url' : 'base64').replace(/=+$/, '');
  const isPadded = encoded.replace(/\s/g, '').length % 4 === 0;
  const again = isPadded ? bare.padEnd(Math.ceil(bare.length / 4) * 4, '=') : bare;
  const [, line = '', end = ''] = /^(\S+)(\s+)/.exec(encoded) ?? [];
  return end === '' ? again : again.replace(new RegExp(`.{${line.length}}(?=.)`, 'g'), `$&${end}`);
}

/** Bytes as characters: whatever it is, it can be put back. */
function decoded(encoded: string): string {
  return Buffer.from(encoded, 'base64').toString('latin1');
}

/** Half of a character is left as it is; no URL can hold it. */
function percentEncoded(text: string): string {
  try {
    return encodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Either alphabet, with padding or without, in one line or several. */
const BASE64 = new RegExp(`[A-Za-z0-9+/_-]{${MIN_ENCODED_LENGTH},}(?:\\r?\\n[A-Za-z0-9+/_-]+)*={0,2}`, 'g');

/** Where base64 may begin in what looks like it: what stands before it may have the same characters, such as the slash of a URL. */
const BEGINNINGS = [0, 1, 2, 3];
