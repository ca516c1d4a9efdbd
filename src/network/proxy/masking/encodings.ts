import { MIN_ENCODED_LENGTH } from './limits.ts';

/** How a text is written inside of URLs and of JSON, each as a function, so that another one can be written in the same way. */
export const SPELLINGS: readonly ((text: string) => string)[] = [
  (text) => text,
  percentEncoded,
  (text) => percentEncoded(text).replace(/%[0-9A-F]{2}/g, (code) => code.toLowerCase()),
  (text) => JSON.stringify(text).slice(1, -1),
];

/** What stands in a text in base64, as far as it may hold a credential. */
export function decodedParts(text: string): string[] {
  return (text.match(BASE64) ?? []).map(decoded);
}

/** The same text with everything changed that stands in it in base64, encoded as it was. */
export function changedInside(text: string, change: (part: string) => string): string {
  return text.replace(BASE64, (encoded) => {
    const part = decoded(encoded);
    const changed = change(part);
    if (changed === part) return encoded;
    const bytes = Buffer.from(changed, 'latin1');
    const again = bytes.toString(/[-_]/.test(encoded) ? 'base64url' : 'base64').replace(/=+$/, '');
    const isPadded = encoded.length % 4 === 0;
    return isPadded ? again.padEnd(Math.ceil(again.length / 4) * 4, '=') : again;
  });
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

/** Either alphabet, with padding or without. */
const BASE64 = new RegExp(`[A-Za-z0-9+/_-]{${MIN_ENCODED_LENGTH},}={0,2}`, 'g');
