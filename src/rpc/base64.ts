import { asBuffer } from '../base/as-buffer.ts';
import { isStrictBase64 } from '../base/base64.ts';
import { BASE64_DECODE_CHUNK_CHARACTERS, BASE64_ENCODE_CHUNK_BYTES } from './limits.ts';

/** Converts between bytes and short strings of base64. */
interface Base64Coder {
  /** Encodes the bytes of `source` from `start` to `end`. */
  encode(source: Buffer, start: number, end: number): string;
  /**
   * Decodes groups of four characters into `into` at `start`. Returns the number of bytes; null when the text contains anything but
   * base64 symbols. The text consists of characters below 256.
   */
  decode(text: string, into: Buffer, start: number): number | null;
}

/** The functions of `Buffer`. */
export const BUFFER_CODER: Base64Coder = {
  encode: (source, start, end) => source.toString('base64', start, end),
  decode(text, into, start) {
    const count = into.write(text, start, 'base64');
    return isStrictBase64(text, 0, count) ? count : null;
  },
};

/** The functions of `Uint8Array`, which are faster. Null before Node 25. */
export const TYPED_ARRAY_CODER: Base64Coder | null =
  'setFromBase64' in Uint8Array.prototype ? typedArrayCoder() : null;

const DEFAULT_CODER = TYPED_ARRAY_CODER ?? BUFFER_CODER;

/**
 * Writes the bytes as base64 into `frame` at `start`, followed by `after`. Returns the end position. The strings in between are
 * short, because V8 allocates long ones separately and frees them late.
 */
export function writeBase64(
  frame: Buffer,
  start: number,
  bytes: Uint8Array,
  after: Uint8Array,
  coder = DEFAULT_CODER,
): number {
  const source = asBuffer(bytes);
  let end = start;
  for (let from = 0; from < source.length; from += BASE64_ENCODE_CHUNK_BYTES) {
    const text = coder.encode(source, from, Math.min(from + BASE64_ENCODE_CHUNK_BYTES, source.length));
    end += frame.write(text, end, 'latin1');
  }
  frame.set(after, end);
  return end + after.length;
}

/**
 * Decodes groups of four base64 characters without padding into `into`. Returns null when the text is anything
 * else.
 */
export function decodeGroups(text: Buffer, into: Buffer, coder = DEFAULT_CODER): number | null {
  let end = 0;
  for (let from = 0; from < text.length; from += BASE64_DECODE_CHUNK_CHARACTERS) {
    const piece = text.toString('latin1', from, Math.min(from + BASE64_DECODE_CHUNK_CHARACTERS, text.length));
    const count = coder.decode(piece, into, end);
    if (count === null) return null;
    end += count;
  }
  return end;
}

/** Returns the length of `bytes` bytes in base64. */
export function base64Length(bytes: number): number {
  return Math.ceil(bytes / 3) * 4;
}

/** The methods that newer versions of JavaScript have. */
interface WithBase64 {
  toBase64(): string;
  setFromBase64(text: string, options: { lastChunkHandling: 'strict' }): { written: number };
}

function typedArrayCoder(): Base64Coder {
  const part = (buffer: Buffer, start: number, end: number) =>
    new Uint8Array(buffer.buffer, buffer.byteOffset + start, end - start) as unknown as WithBase64;
  return {
    encode: (source, start, end) => part(source, start, end).toBase64(),
    decode(text, into, start) {
      try {
        const target = part(into, start, into.length);
        const { written } = target.setFromBase64(text, { lastChunkHandling: 'strict' });
        // White space is skipped, and padding accepted. Both make the result shorter.
        return written === (text.length / 4) * 3 ? written : null;
      } catch (error) {
        if (error instanceof SyntaxError) return null;
        throw error;
      }
    },
  };
}
