import type { BulkText } from '../../protocol/envelope.ts';
import { invalidParams } from '../../protocol/errors.ts';
import { DECODED_AT_ONCE_CHARACTERS } from '../limits.ts';

/** What a base64 text stands for, or what is wrong with it. */
export type Decoded = Buffer | { readonly problem: string };

/** The bytes of a parameter, which may have come as bulk text; a refusal names it. */
export function bytesParam<Name extends string>(
  params: Readonly<Record<Name, string>>,
  name: Name,
  bulk: BulkText | null,
): Buffer {
  const bytes = decodeParam(params[name], bulk);
  if ('problem' in bytes) {
    throw invalidParams(`params.${name}: expected standard base64 with padding: ${bytes.problem}`);
  }
  return bytes;
}

/** The bytes of a base64 parameter that may have come as bulk text, which is used up by it. */
export function decodeParam(param: string, bulk: BulkText | null): Decoded {
  return bulk === null ? decodeBase64(param) : decodeInPlace(bulk.bytes);
}

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

/**
 * Like {@link decodeBase64}, for a text of bytes. What comes out is shorter than the text and takes its place, and no string is longer
 * than the young generation of the heap takes lightly: nothing large is allocated.
 */
export function decodeInPlace(text: Uint8Array): Decoded {
  const buffer = Buffer.from(text.buffer, text.byteOffset, text.length);
  let end = 0;
  for (let from = 0; from < buffer.length; from += DECODED_AT_ONCE_CHARACTERS) {
    const behind = Math.min(from + DECODED_AT_ONCE_CHARACTERS, buffer.length);
    const piece = buffer.toString('latin1', from, behind);
    const padding = behind < buffer.length ? 0 : paddingOf(piece);
    const count = buffer.write(piece, end, behind - end, 'base64');
    if (!isStrict(piece, padding, count)) {
      // What was decoded so far was right, and there is one text only that it can have been.
      const before = buffer.toString('base64', 0, end);
      return { problem: problemOf(`${before}${piece}${buffer.toString('latin1', behind)}`) };
    }
    end += count;
  }
  return buffer.subarray(0, end);
}

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';

function paddingOf(text: string): number {
  return text.endsWith('==') ? 2 : text.endsWith('=') ? 1 : 0;
}

/** Whether a text from which so many bytes were decoded is one that strict decoders take. */
function isStrict(text: string, padding: number, bytes: number): boolean {
  const complete = text.length % 4 === 0 && bytes === (text.length / 4) * 3 - padding;
  return complete && !text.includes('-') && !text.includes('_') && !hasStrayBits(text, padding);
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
