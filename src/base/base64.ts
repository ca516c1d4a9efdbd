/** What this file needs of Node's `Buffer`; a browser has none. */
interface NodeBase64 {
  from(source: string, encoding: 'base64'): Uint8Array;
  from(source: ArrayBufferLike, offset: number, length: number): { toString(encoding: 'base64'): string };
  byteLength(text: string): number;
}

/** Encodes bytes as standard base64 with padding. */
export function encodeBase64(bytes: Uint8Array): string {
  const node = nodeBase64();
  if (node !== null) return node.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64');
  const parts: string[] = [];
  for (let at = 0; at < bytes.length; at += PORTABLE_BLOCK_BYTES) {
    parts.push(btoa(String.fromCharCode(...bytes.subarray(at, at + PORTABLE_BLOCK_BYTES))));
  }
  return parts.join('');
}

/**
 * Decodes standard base64. Returns null for a text that is not exactly what an encoder writes: padded, without stray bits. The result
 * is a `Buffer` where there is one.
 */
export function decodeBase64(text: string): Uint8Array | null {
  const node = nodeBase64();
  if (node === null) return decodePortably(text);
  const bytes = node.from(text, 'base64');
  // Node's decoder may take the low byte of a character outside ASCII for a symbol.
  const isAscii = node.byteLength(text) === text.length;
  return isAscii && isStrictBase64(text, base64Padding(text), bytes.length) ? bytes : null;
}

/**
 * Whether an ASCII text with `padding` padding characters, from which Node decoded `bytes` bytes, is strict base64. Node's decoder
 * skips unknown characters, which makes the result too short, and accepts the URL alphabet. So a valid text needs no second pass.
 */
export function isStrictBase64(text: string, padding: number, bytes: number): boolean {
  const complete = text.length % 4 === 0 && bytes === (text.length / 4) * 3 - padding;
  return complete && !text.includes('-') && !text.includes('_') && !hasStrayBits(text, padding);
}

/** Whether the text is canonical base64: padded, and without stray bits in the last symbol. */
export function isCanonicalBase64(text: string): boolean {
  const padding = base64Padding(text);
  if (text.length % 4 !== 0 || hasStrayBits(text, padding)) return false;
  return !NOT_BASE64.test(text.slice(0, text.length - padding));
}

/** Returns how many padding characters the text ends with, at most two. */
export function base64Padding(text: string): number {
  if (text.endsWith('==')) return 2;
  return text.endsWith('=') ? 1 : 0;
}

/** Returns how many bytes the text encodes. */
export function base64ByteLength(text: string): number {
  return Math.max(0, Math.floor(text.length / 4) * 3 - base64Padding(text));
}

/** A multiple of three, so that the blocks join; small enough to be passed as arguments. */
const PORTABLE_BLOCK_BYTES = 3 * 4096;
const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';
const NOT_BASE64 = /[^A-Za-z0-9+/]/;

function nodeBase64(): NodeBase64 | null {
  return (globalThis as { Buffer?: NodeBase64 }).Buffer ?? null;
}

function decodePortably(text: string): Uint8Array | null {
  if (!isCanonicalBase64(text)) return null;
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let at = 0; at < bytes.length; at++) bytes[at] = binary.charCodeAt(at);
  return bytes;
}

/** Whether the bits of the last symbol that encode nothing are set, or there is no such symbol. */
function hasStrayBits(text: string, padding: number): boolean {
  if (padding === 0) return false;
  const last = ALPHABET.indexOf(text.charAt(text.length - padding - 1));
  return last < 0 || (last & (padding === 2 ? 0b1111 : 0b11)) !== 0;
}
