import { decodeBase64, encodeBase64 } from '../../base/base64.ts';

/**
 * Bytes as the value of a base64 parameter. A connection that carries bytes gets a copy of them in place of the text: the caller may
 * use its buffer again.
 */
export function bytesParam(bytes: Uint8Array, { carriesBytes = false }: { carriesBytes?: boolean }): string {
  return carriesBytes ? (new Uint8Array(bytes) as unknown as string) : encodeBase64(bytes);
}

/** Returns the bytes of a base64 member of a message; null when it is invalid. Where both ends are in one process it is bytes already. */
export function receivedBytes(member: unknown): Uint8Array | null {
  if (member instanceof Uint8Array) return member;
  return typeof member === 'string' ? decodeBase64(member) : null;
}
