import { base64ByteLength, decodeBase64, encodeBase64 } from '../../base/base64.ts';
import { bytesMemberOf } from '../../protocol/bytes-members.ts';

/**
 * Returns bytes as the value of a base64 parameter. A client that takes bytes gets a copy instead of the text, so the caller may reuse
 * its buffer: the bytes go as they are where the connection carries them, else they are encoded when the request is sent, without
 * looking for characters that JSON escapes.
 */
export function bytesParam(bytes: Uint8Array, { takesBytes = false }: { takesBytes?: boolean }): string {
  return takesBytes ? (new Uint8Array(bytes) as unknown as string) : encodeBase64(bytes);
}

/**
 * Returns the bytes of a base64 member of a message; null when it is invalid or has more than `maxBytes`. In a binary message the
 * member is already bytes. A text that is too long is not decoded.
 */
export function receivedBytes(member: unknown, maxBytes = Number.POSITIVE_INFINITY): Uint8Array | null {
  if (member instanceof Uint8Array) return member.length <= maxBytes ? member : null;
  return typeof member === 'string' && base64ByteLength(member) <= maxBytes ? decodeBase64(member) : null;
}

/** Returns the params of a notification, or a result, with base64 in place of the bytes of a binary message. */
export function withBase64(kind: 'notifications' | 'results', method: string, members: unknown): unknown {
  const field = bytesMemberOf(kind, method);
  const bytes = field === null ? null : (members as Readonly<Record<string, unknown>> | null)?.[field];
  if (field === null || !(bytes instanceof Uint8Array)) return members;
  return { ...(members as object), [field]: encodeBase64(bytes) };
}
