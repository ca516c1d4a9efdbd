import { isUtf8 } from 'node:buffer';

/**
 * The text of bytes that are UTF-8 for the most part. Each byte that is not becomes the lone surrogate U+DC00 plus the byte: no
 * character of a pattern matches it, and the length in bytes is still known.
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

/** How many bytes a text of {@link textOfBytes} was. */
export function byteLengthOf(text: string): number {
  return Buffer.byteLength(text) - 2 * (text.match(LONE_BYTE)?.length ?? 0);
}

/** The text for people to read: U+FFFD where bytes were not UTF-8. */
export function readable(text: string): string {
  return text.replace(LONE_BYTE, '\ufffd');
}

/** The stand-ins for bytes, as members of a class in a regular expression. */
export const LONE_BYTES = '\\uDC80-\\uDCFF';

const LONE_BYTE = new RegExp(`[${LONE_BYTES}]`, 'gu');

/** A character of two to four bytes, spelled as bytes, or else one byte outside ASCII. */
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
