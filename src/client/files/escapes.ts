import { bytesOf } from './file-content.ts';

/** Percent-encodes the bytes of a name or of the target of a link, as the protocol has them. Text is UTF-8. Slashes stay. */
export function escapeBytes(content: Uint8Array | string): string {
  let text = '';
  for (const byte of bytesOf(content)) {
    const character = String.fromCharCode(byte);
    text += PLAIN.test(character) ? character : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`;
  }
  return text;
}

/** The bytes of a percent-encoded text. */
export function unescapeBytes(text: string): Uint8Array {
  const bytes = text.replace(/%([0-9A-Fa-f]{2})/g, (_, digits: string) =>
    String.fromCharCode(parseInt(digits, 16)),
  );
  return Uint8Array.from(bytes, (character) => character.charCodeAt(0));
}

/** A percent-encoded text for people. Bytes that are not UTF-8 become U+FFFD. */
export function unescapeText(text: string): string {
  return new TextDecoder().decode(unescapeBytes(text));
}

const PLAIN = /[A-Za-z0-9\-._~/]/;
