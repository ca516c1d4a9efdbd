import { createPrivateKey, createPublicKey, diffieHellman, type KeyObject } from 'node:crypto';
import { RelayError } from '../errors.ts';

/** A pair of X25519 keys. The secret one is kept where only the system's cryptography reads it. */
export interface X25519Pair {
  readonly secret: KeyObject;
  readonly publicKey: Buffer;
}

/** The pair of a secret key of 32 bytes. */
export function x25519Pair(secretBytes: Uint8Array): X25519Pair {
  const der = Buffer.concat([PKCS8_PREFIX, secretBytes]);
  const secret = createPrivateKey({ key: der, format: 'der', type: 'pkcs8' });
  der.fill(0);
  const exported = createPublicKey(secret).export({ format: 'der', type: 'spki' });
  return { secret, publicKey: exported.subarray(SPKI_PREFIX.length) };
}

/** The secret that two pairs share. Throws for public keys that make it predictable. */
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

/** What stands before the 32 bytes of an X25519 key in PKCS #8 and in SubjectPublicKeyInfo (RFC 8410). */
const PKCS8_PREFIX = Buffer.from('302e020100300506032b656e04220420', 'hex');
const SPKI_PREFIX = Buffer.from('302a300506032b656e032100', 'hex');
