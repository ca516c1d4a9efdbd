import { type KeyObject, randomBytes, timingSafeEqual } from 'node:crypto';
import { RelayError } from '../errors.ts';
import { decapsulate, encapsulate, kemPair, x25519Pair } from './primitives.ts';
import { NoisePublicKey } from './public-key.ts';
import { KEM_RANDOMNESS_BYTES, KEM_SEED_BYTES, X25519_BYTES } from './suite.ts';

/** The long-lived keys of an executor or a harness. */
export interface Identity {
  readonly publicKey: NoisePublicKey;
  readonly x25519Secret: KeyObject;
  readonly kemSecret: Uint8Array;
}

/**
 * Generates new keys, which takes about 40 ms in a fresh process. A test encapsulation detects a broken pair before its first use. It
 * also warms up the code for the first handshake.
 */
export function createIdentity(): Identity {
  const [x25519Secret, kemSeed] = [randomBytes(X25519_BYTES), randomBytes(KEM_SEED_BYTES)];
  const identity = identityFrom(x25519Secret, kemSeed);
  x25519Secret.fill(0);
  kemSeed.fill(0);
  const { ciphertext, secret } = encapsulate(identity.publicKey.mlkem768, randomBytes(KEM_RANDOMNESS_BYTES));
  if (!timingSafeEqual(decapsulate(ciphertext, identity.kemSecret), secret)) {
    throw new RelayError('invalidKey', 'the generated key pair is inconsistent');
  }
  return identity;
}

/** Derives the keys from 32 and 64 secret bytes. */
export function identityFrom(x25519SecretBytes: Uint8Array, kemSeed: Uint8Array): Identity {
  const x25519 = x25519Pair(x25519SecretBytes);
  const kem = kemPair(kemSeed);
  return {
    publicKey: new NoisePublicKey(x25519.publicKey, kem.publicKey),
    x25519Secret: x25519.secret,
    kemSecret: kem.secretKey,
  };
}
