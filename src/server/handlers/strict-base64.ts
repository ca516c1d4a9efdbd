import type { BulkText } from '../../protocol/envelope.ts';
import { invalidParams } from '../../protocol/errors.ts';

/** The bytes of a parameter, which may have come as bulk text; a refusal names it. */
export function bytesParam<Name extends string>(
  params: Readonly<Record<Name, string>>,
  name: Name,
  bulk: BulkText | null,
): Buffer {
  const bytes = decodeBase64(textOf(params[name], bulk));
  if ('problem' in bytes) {
    throw invalidParams(`params.${name}: expected standard base64 with padding: ${bytes.problem}`);
  }
  return bytes;
}

/**
 * The bytes of a standard base64 text with padding, or what is wrong with it. Node's decoder skips what it does not know; each
 * character it skipped makes the result too short, so that a good text costs no second look. Of characters outside ASCII it may take
 * the low byte for one that it knows.
 */
export function decodeBase64(text: string): Buffer | { readonly problem: string } {
  const padding = text.endsWith('==') ? 2 : text.endsWith('=') ? 1 : 0;
  const bytes = Buffer.from(text, 'base64');
  const complete = text.length % 4 === 0 && bytes.length === (text.length / 4) * 3 - padding;
  const isAscii = Buffer.byteLength(text) === text.length;
  if (complete && isAscii && !text.includes('-') && !text.includes('_') && !hasStrayBits(text, padding))
    return bytes;
  return { problem: problemOf(text) };
}

/** The base64 text of a parameter that may have come as bulk text. */
export function textOf(param: string, bulk: BulkText | null): string {
  return bulk === null
    ? param
    : Buffer.from(bulk.bytes.buffer, bulk.bytes.byteOffset, bulk.bytes.length).toString('latin1');
}

const ALPHABET = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/';

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
