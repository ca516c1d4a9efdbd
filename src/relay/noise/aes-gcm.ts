import { type CipherKey, createCipheriv, createDecipheriv } from 'node:crypto';
import { RelayError } from '../errors.ts';
import { TAG_BYTES } from './suite.ts';

/** Encrypts, and appends the tag that also covers `associated`. A key must never see a number twice. */
export function sealAesGcm(
  key: CipherKey,
  number: number,
  plaintext: Uint8Array,
  associated?: Uint8Array,
): Buffer {
  const cipher = createCipheriv(ALGORITHM, key, nonceOf(number));
  if (associated !== undefined) cipher.setAAD(associated);
  return Buffer.concat([cipher.update(plaintext), cipher.final(), cipher.getAuthTag()]);
}

/** Undoes {@link sealAesGcm}. Throws RelayError when key, number, bytes or `associated` are not those that were sealed. */
export function openAesGcm(
  key: CipherKey,
  number: number,
  sealed: Uint8Array,
  associated?: Uint8Array,
): Buffer {
  if (sealed.length < TAG_BYTES) throw new RelayError('protocol', 'an encrypted text is too short');
  const end = sealed.length - TAG_BYTES;
  const decipher = createDecipheriv(ALGORITHM, key, nonceOf(number));
  decipher.setAuthTag(sealed.subarray(end));
  if (associated !== undefined) decipher.setAAD(associated);
  const plaintext = decipher.update(sealed.subarray(0, end));
  try {
    decipher.final();
  } catch {
    plaintext.fill(0);
    throw new RelayError('protocol', 'an encrypted text is not authentic');
  }
  return plaintext;
}

const ALGORITHM = 'aes-256-gcm';

/** Four zero bytes and a number of eight. */
function nonceOf(number: number): Buffer {
  const nonce = Buffer.alloc(12);
  nonce.writeBigUInt64BE(BigInt(number), 4);
  return nonce;
}
