import {
  type CipherKey,
  createCipheriv,
  createDecipheriv,
  createPrivateKey,
  createPublicKey,
  diffieHellman,
  type KeyObject,
} from 'node:crypto';
import { ml_kem768 } from '@noble/post-quantum/ml-kem.js';
import { RelayError } from '../errors.ts';
import { TAG_BYTES } from './suite.ts';

/** Encrypts and appends the tag, which also covers `associated`. A key must never be used twice with the same number. */
export function sealAesGcm(
  key: CipherKey,
  number: number,
  plaintext: Uint8Array,
  associated?: Uint8Array,
): Buffer {
  const cipher = createCipheriv(AES_ALGORITHM, key, nonceOf(number));
  if (associated !== undefined) cipher.setAAD(associated);
  return Buffer.concat([cipher.update(plaintext), cipher.final(), cipher.getAuthTag()]);
}

/** Reverses {@link sealAesGcm}. Throws RelayError when the key, number, bytes or `associated` differ from the sealed ones. */
export function openAesGcm(
  key: CipherKey,
  number: number,
  sealed: Uint8Array,
  associated?: Uint8Array,
): Buffer {
  if (sealed.length < TAG_BYTES) throw new RelayError('protocol', 'the ciphertext is too short');
  const end = sealed.length - TAG_BYTES;
  const decipher = createDecipheriv(AES_ALGORITHM, key, nonceOf(number));
  decipher.setAuthTag(sealed.subarray(end));
  if (associated !== undefined) decipher.setAAD(associated);
  const plaintext = decipher.update(sealed.subarray(0, end));
  try {
    decipher.final();
  } catch {
    plaintext.fill(0);
    throw new RelayError('protocol', 'the ciphertext is not authentic');
  }
  return plaintext;
}

const AES_ALGORITHM = 'aes-256-gcm';

/** Four zero bytes, then the number as 64 bits in network order. */
function nonceOf(number: number): Buffer {
  const nonce = Buffer.alloc(12);
  nonce.writeBigUInt64BE(BigInt(number), 4);
  return nonce;
}

/** An X25519 key pair. The secret key stays inside OpenSSL. */
export interface X25519Pair {
  readonly secret: KeyObject;
  readonly publicKey: Buffer;
}

/** Derives the pair from a secret key of 32 bytes. */
export function x25519Pair(secretBytes: Uint8Array): X25519Pair {
  const der = Buffer.concat([PKCS8_PREFIX, secretBytes]);
  const secret = createPrivateKey({ key: der, format: 'der', type: 'pkcs8' });
  der.fill(0);
  const exported = createPublicKey(secret).export({ format: 'der', type: 'spki' });
  return { secret, publicKey: exported.subarray(SPKI_PREFIX.length) };
}

/** Computes the shared secret of two pairs. Throws RelayError for a public key that makes the secret predictable. */
export function x25519Shared(secret: KeyObject, publicKey: Uint8Array): Buffer {
  try {
    const key = Buffer.concat([SPKI_PREFIX, publicKey]);
    return diffieHellman({
      privateKey: secret,
      publicKey: createPublicKey({ key, format: 'der', type: 'spki' }),
    });
  } catch {
    throw new RelayError('handshake', 'the X25519 key of the peer is not usable');
  }
}

/** The bytes before the 32 bytes of an X25519 key in PKCS #8 and in SubjectPublicKeyInfo (RFC 8410). */
const PKCS8_PREFIX = Buffer.from('302e020100300506032b656e04220420', 'hex');
const SPKI_PREFIX = Buffer.from('302a300506032b656e032100', 'hex');

/** An ML-KEM-768 key pair. */
export interface KemPair {
  readonly secretKey: Uint8Array;
  readonly publicKey: Uint8Array;
}

/** A shared secret, and the ciphertext that carries it to the holder of a public key. */
interface Encapsulation {
  readonly ciphertext: Uint8Array;
  readonly secret: Uint8Array;
}

/** Derives the pair from a seed of 64 bytes, which FIPS 203 calls d and z. */
export function kemPair(seed: Uint8Array): KemPair {
  return ml_kem768.keygen(seed);
}

/** Makes a shared secret from 32 random bytes. Throws RelayError for an invalid public key. */
export function encapsulate(publicKey: Uint8Array, randomness: Uint8Array): Encapsulation {
  try {
    const { cipherText, sharedSecret } = ml_kem768.encapsulate(publicKey, randomness);
    return { ciphertext: cipherText, secret: sharedSecret };
  } catch {
    throw new RelayError('handshake', 'the ML-KEM key of the peer is not usable');
  }
}

/** Reads the shared secret of a ciphertext. A ciphertext for another key yields an unrelated secret and no error. */
export function decapsulate(ciphertext: Uint8Array, secretKey: Uint8Array): Uint8Array {
  return ml_kem768.decapsulate(ciphertext, secretKey);
}
