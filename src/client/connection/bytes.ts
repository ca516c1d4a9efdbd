import { decodeBase64, encodeBase64 } from '../../base/base64.ts';

/**
 * Returns bytes as the value of a base64 parameter. A client that takes bytes gets a copy instead of the text, so the caller may reuse
 * its buffer: the bytes go as they are where the connection carries them, else they are encoded when the request is sent, without
 * looking for characters that JSON escapes.
 */
export function bytesParam(bytes: Uint8Array, { takesBytes = false }: { takesBytes?: boolean }): string {
  return takesBytes ? (new Uint8Array(bytes) as unknown as string) : encodeBase64(bytes);
}

/** Returns the bytes of a base64 member of a message; null when it is invalid. In a binary message the member is already bytes. */
export function receivedBytes(member: unknown): Uint8Array | null {
  if (member instanceof Uint8Array) return member;
  return typeof member === 'string' ? decodeBase64(member) : null;
}
