import { isUtf8 } from 'node:buffer';

/**
 * Decodes bytes that are mostly UTF-8. Each invalid byte becomes the lone surrogate U+DC00 plus the byte: no character of a pattern
 * matches it, and the length in bytes stays known.
 */
export function textOfBytes(bytes: Buffer): string {
  if (isUtf8(bytes)) return bytes.toString();
  return bytes
    .toString('latin1')
    .replace(SEQUENCE_OR_BYTE, (match, sequence: string | undefined) =>
      sequence === undefined
        ? String.fromCharCode(0xdc00 + match.charCodeAt(0))
        : Buffer.from(sequence, 'latin1').toString(),
    );
}

/** The number of bytes that {@link textOfBytes} decoded. */
export function byteLengthOf(text: string): number {
  return Buffer.byteLength(text) - 2 * (text.match(LONE_BYTE)?.length ?? 0);
}

/** The text with U+FFFD for each invalid byte. */
export function readable(text: string): string {
  return text.replace(LONE_BYTE, '\ufffd');
}

/** The surrogates for invalid bytes, as members of a character class in a regular expression. */
export const LONE_BYTES = '\\uDC80-\\uDCFF';

const LONE_BYTE = new RegExp(`[${LONE_BYTES}]`, 'gu');

/** A UTF-8 sequence of two to four bytes, or else one byte outside ASCII. */
const SEQUENCE_OR_BYTE = new RegExp(
  [
    '([\\xc2-\\xdf][\\x80-\\xbf]',
    '\\xe0[\\xa0-\\xbf][\\x80-\\xbf]',
    '[\\xe1-\\xec\\xee\\xef][\\x80-\\xbf]{2}',
    '\\xed[\\x80-\\x9f][\\x80-\\xbf]',
    '\\xf0[\\x90-\\xbf][\\x80-\\xbf]{2}',
    '[\\xf1-\\xf3][\\x80-\\xbf]{3}',
    '\\xf4[\\x80-\\x8f][\\x80-\\xbf]{2})',
    '[\\x80-\\xff]',
  ].join('|'),
  'g',
);
