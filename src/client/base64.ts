/** What this file needs of Node's `Buffer`; a browser has none. */
interface FastBase64 {
  from(source: string, encoding: 'base64'): Uint8Array;
  from(source: ArrayBufferLike, offset: number, length: number): { toString(encoding: 'base64'): string };
}

/** Standard base64 with padding. */
export function encodeBase64(bytes: Uint8Array): string {
  const fast = fastBase64();
  if (fast !== null) return fast.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64');
  const parts: string[] = [];
  for (let at = 0; at < bytes.length; at += PORTABLE_BLOCK_BYTES) {
    parts.push(btoa(String.fromCharCode(...bytes.subarray(at, at + PORTABLE_BLOCK_BYTES))));
  }
  return parts.join('');
}

/** The bytes of a standard base64 text, or null when it is not exactly what an encoder writes: padded, without stray bits. */
export function decodeBase64(text: string): Uint8Array | null {
  const padding = paddingOf(text);
  if (text.length % 4 !== 0 || hasStrayBits(text, padding)) return null;
  const length = (text.length / 4) * 3 - padding;
  const fast = fastBase64();
  if (fast === null) return decodePortably(text, length);
  const bytes = fast.from(text, 'base64');
  // Node's decoder skips what it does not know, which makes the result too short, and takes the symbols of the URL alphabet.
  return bytes.length === length && !text.includes('-') && !text.includes('_') ? bytes : null;
}

/** How many bytes the text stands for. */
export function base64ByteLength(text: string): number {
  return Math.max(0, Math.floor(text.length / 4) * 3 - paddingOf(text));
}

/** A multiple of three, so that the blocks join; small enough to be passed as arguments. */
const PORTABLE_BLOCK_BYTES = 3 * 4096;
const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
const NOT_BASE64 = /[^A-Za-z0-9+/]/;

function fastBase64(): FastBase64 | null {
  return (globalThis as { Buffer?: FastBase64 }).Buffer ?? null;
}

function decodePortably(text: string, length: number): Uint8Array | null {
  if (NOT_BASE64.test(text.slice(0, text.length - paddingOf(text)))) return null;
  const binary = atob(text);
  const bytes = new Uint8Array(length);
  for (let at = 0; at < length; at++) bytes[at] = binary.charCodeAt(at);
  return bytes;
}

function paddingOf(text: string): number {
  if (text.endsWith('==')) return 2;
  return text.endsWith('=') ? 1 : 0;
}

function hasStrayBits(text: string, padding: number): boolean {
  if (padding === 0) return false;
  const last = ALPHABET.indexOf(text.charAt(text.length - padding - 1));
  return last < 0 || (last & (padding === 2 ? 0b1111 : 0b11)) !== 0;
}
