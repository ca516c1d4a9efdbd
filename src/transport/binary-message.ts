import { BINARY_TEXT_MAX_BYTES } from './limits.ts';
import type { BytesMessage } from './transport.ts';

// A binary message is one binary frame: the length of the JSON in four bytes, most significant first, the JSON, and the bytes of its large
// member. The first byte is zero, because the JSON has less than 16 MiB. No JSON begins with it, so a frame shows what it is.

/** Bytes before the JSON. */
export const TEXT_LENGTH_BYTES = 4;
const FIRST_BYTE = 0;
const ENCODER = new TextEncoder();
const DECODER = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/** Whether the payload of a binary frame, or its beginning, is a binary message. Otherwise it is text. */
export function isBinaryMessage(payload: Uint8Array): boolean {
  return payload[0] === FIRST_BYTE;
}

/** Returns what comes before the bytes. */
export function encodeBinaryHead(text: string): Uint8Array {
  const encoded = ENCODER.encode(text);
  const head = new Uint8Array(TEXT_LENGTH_BYTES + encoded.length);
  new DataView(head.buffer).setUint32(0, encoded.length);
  head.set(encoded, TEXT_LENGTH_BYTES);
  return head;
}

/** Splits a whole message without copying its bytes. Throws BinaryMessageError. */
export function splitBinaryMessage(payload: Uint8Array): BytesMessage {
  const textEnd = TEXT_LENGTH_BYTES + readTextLength(payload);
  if (payload.length < textEnd) throw new BinaryMessageError(ENDS_IN_TEXT);
  const text = decodeBinaryText(payload.subarray(TEXT_LENGTH_BYTES, textEnd));
  return { text, bytes: payload.subarray(textEnd) };
}

/** Reads the length of the JSON. Throws BinaryMessageError. */
export function readTextLength(payload: Uint8Array): number {
  if (payload.length < TEXT_LENGTH_BYTES) throw new BinaryMessageError(ENDS_IN_TEXT);
  const length = new DataView(payload.buffer, payload.byteOffset).getUint32(0);
  if (length > BINARY_TEXT_MAX_BYTES) {
    throw new BinaryMessageError(`the JSON of a binary message has more than ${BINARY_TEXT_MAX_BYTES} bytes`);
  }
  return length;
}

/** Decodes the JSON. Throws BinaryMessageError. */
export function decodeBinaryText(text: Uint8Array): string {
  try {
    return DECODER.decode(text);
  } catch {
    throw new BinaryMessageError('the JSON of a binary message is not valid UTF-8');
  }
}

/** A frame that is not a valid binary message. */
export class BinaryMessageError extends Error {
  override readonly name = 'BinaryMessageError';
}

/** The message of the error for a frame that is too short. */
export const ENDS_IN_TEXT = 'a binary message ends before its JSON does';
