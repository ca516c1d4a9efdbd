import { ml_kem768 } from '@noble/post-quantum/ml-kem.js';
import { RelayError } from '../errors.ts';

/** A pair of ML-KEM-768 keys. */
export interface KemPair {
  readonly secretKey: Uint8Array;
  readonly publicKey: Uint8Array;
}

/** A secret for the holder of a public key. */
export interface Encapsulation {
  readonly ciphertext: Uint8Array;
  readonly secret: Uint8Array;
}

/** The pair of a seed of 64 bytes, which FIPS 203 calls d and z. */
export function kemPair(seed: Uint8Array): KemPair {
  return ml_kem768.keygen(seed);
}

/** Makes a secret from 32 random bytes. Throws for a public key that no pair can have. */
export function encapsulate(publicKey: Uint8Array, randomness: Uint8Array): Encapsulation {
  try {
    const { cipherText, sharedSecret } = ml_kem768.encapsulate(publicKey, randomness);
    return { ciphertext: cipherText, secret: sharedSecret };
  } catch {
    throw new RelayError('handshake', 'the ML-KEM key of the peer is not usable');
  }
}

/** The secret in a ciphertext. One that was made for another key yields an unrelated secret; nothing tells the difference here. */
export function decapsulate(ciphertext: Uint8Array, secretKey: Uint8Array): Uint8Array {
  return ml_kem768.decapsulate(ciphertext, secretKey);
}
