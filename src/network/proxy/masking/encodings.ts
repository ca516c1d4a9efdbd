import { MIN_ENCODED_LENGTH } from './limits.ts';

/** Encodings of a text in URLs, in JSON, and as one character per byte, as functions that encode any other text in the same way. */
export const TEXT_ENCODINGS: readonly ((text: string) => string)[] = [
  (text) => text,
  percentEncoded,
  (text) => percentEncoded(text).replace(/%[0-9A-F]{2}/g, (code) => code.toLowerCase()),
  (text) => JSON.stringify(text).slice(1, -1),
  (text) => Buffer.from(text).toString('latin1'),
];

/** The decoded base64 parts of a text that are long enough for a credential. */
export function decodedParts(text: string): string[] {
  return (text.match(BASE64) ?? []).flatMap((run) => OFFSETS.map((from) => decoded(run.slice(from))));
}

/** Applies a change to all base64 parts of a text and encodes them as before. */
export function changeBase64Parts(text: string, change: (part: string) => string): string {
  return text.replace(BASE64, (run) =>
    OFFSETS.reduce((now, from) => now.slice(0, from) + changedBase64(now.slice(from), change), run),
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

/** One character per byte, so that any content can be encoded again. */
function decoded(encoded: string): string {
  return Buffer.from(encoded, 'base64').toString('latin1');
}

/** Returns an unpaired surrogate unchanged; no URL can contain it. */
function percentEncoded(text: string): string {
  try {
    return encodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Both alphabets, with or without padding, in one or more lines. */
const BASE64 = new RegExp(`[A-Za-z0-9+/_-]{${MIN_ENCODED_LENGTH},}(?:\\r?\\n[A-Za-z0-9+/_-]+)*={0,2}`, 'g');

/** Possible offsets of base64 in a run of its characters: preceding text, such as the slash of a URL, may use the same characters. */
const OFFSETS = [0, 1, 2, 3];
