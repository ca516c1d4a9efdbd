import { decodeBase64, encodeBase64 } from '../../base/base64.ts';

/**
 * Returns bytes as the value of a base64 parameter. A connection that carries bytes gets a copy instead of the
 * text, so the caller may reuse its buffer.
 */
export function bytesParam(bytes: Uint8Array, { carriesBytes = false }: { carriesBytes?: boolean }): string {
  return carriesBytes ? (new Uint8Array(bytes) as unknown as string) : encodeBase64(bytes);
}

/**
 * Returns the bytes of a base64 member of a message; null when it is invalid. When both ends are in one process,
 * the member is already bytes.
 */
export function receivedBytes(member: unknown): Uint8Array | null {
  if (member instanceof Uint8Array) return member;
  return typeof member === 'string' ? decodeBase64(member) : null;
}
