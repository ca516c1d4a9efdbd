/** What a base64 text stands for, or what is wrong with it. */
export type Decoded = Buffer | { readonly problem: string };

/**
 * The bytes of a standard base64 text with padding, or what is wrong with it. Node's decoder skips what it does not know; each
 * character it skipped makes the result too short, so that a good text costs no second look. Of characters outside ASCII it may take
 * the low byte for one that it knows.
 */
export function decodeBase64(text: string): Decoded {
  const bytes = Buffer.from(text, 'base64');
  const isAscii = Buffer.byteLength(text) === text.length;
  return isAscii && isStrict(text, paddingOf(text), bytes.length) ? bytes : { problem: problemOf(text) };
}

/** Whether an ASCII text with so much padding, from which Node decoded so many bytes, is one that strict decoders take. */
export function isStrict(text: string, padding: number, bytes: number): boolean {
  const complete = text.length % 4 === 0 && bytes === (text.length / 4) * 3 - padding;
  return complete && !text.includes('-') && !text.includes('_') && !hasStrayBits(text, padding);
}

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';

function paddingOf(text: string): number {
  return text.endsWith('==') ? 2 : text.endsWith('=') ? 1 : 0;
}

function hasStrayBits(text: string, padding: number): boolean {
  if (padding === 0) return false;
  const last = ALPHABET.indexOf(text.charAt(text.length - padding - 1));
  return (last & (padding === 2 ? 0b1111 : 0b11)) !== 0;
}

function problemOf(text: string): string {
  const symbols = text.replace(/={1,2}$/, '');
  const bad = /[^A-Za-z0-9+/=]/.exec(symbols) ?? /=/.exec(symbols);
  if (bad !== null) return `Invalid symbol ${symbols.codePointAt(bad.index)}, offset ${bad.index}.`;
  if (text.length % 4 !== 0) return 'Invalid padding';
  const offset = symbols.length - 1;
  return `Invalid last symbol ${symbols.charCodeAt(offset)}, offset ${offset}.`;
}
