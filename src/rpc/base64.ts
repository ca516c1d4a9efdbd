import { asBuffer } from '../base/as-buffer.ts';
import { isStrictBase64 } from '../base/base64.ts';
import type { Base64Coder } from '../native/base64.ts';
import { BASE64_DECODE_CHUNK_CHARACTERS, BASE64_ENCODE_CHUNK_BYTES } from './limits.ts';

/** Replaces the base64 coder. */
export function useBase64Coder(better: Base64Coder): void {
  coder = better;
}

/** Writes the bytes as base64 into `frame` at `start`, followed by `after`. Returns the end position. */
export function writeBase64(frame: Buffer, start: number, bytes: Uint8Array, after: Uint8Array): number {
  const end = start + coder.encode(bytes, frame.subarray(start));
  frame.set(after, end);
  return end + after.length;
}

/**
 * Decodes groups of four base64 characters without padding into `into`. Returns null when the text is anything
 * else.
 */
export function decodeGroups(text: Buffer, into: Buffer): number | null {
  const count = coder.decode(text, into);
  return count === (text.length / 4) * 3 ? count : null;
}

/** Returns the length of `bytes` bytes in base64. */
export function base64Length(bytes: number): number {
  return Math.ceil(bytes / 3) * 4;
}

/**
 * Node's own base64 functions, which go through strings. The strings are short, because V8 allocates long ones
 * separately and frees them late.
 */
export const STRING_CODER: Base64Coder = {
  encode(bytes, into) {
    const source = asBuffer(bytes);
    let end = 0;
    for (let from = 0; from < source.length; from += BASE64_ENCODE_CHUNK_BYTES) {
      const piece = source.toString(
        'base64',
        from,
        Math.min(from + BASE64_ENCODE_CHUNK_BYTES, source.length),
      );
      end += into.write(piece, end, 'latin1');
    }
    return end;
  },

  decode(text, into) {
    const source = asBuffer(text);
    let end = 0;
    for (let from = 0; from < source.length; from += BASE64_DECODE_CHUNK_CHARACTERS) {
      const behind = Math.min(from + BASE64_DECODE_CHUNK_CHARACTERS, source.length);
      const piece = source.toString('latin1', from, behind);
      const count = into.write(piece, end, 'base64');
      if (!isStrictBase64(piece, 0, count)) return null;
      end += count;
    }
    return end;
  },
};

let coder = STRING_CODER;
