import { type KeyObject, randomBytes, timingSafeEqual } from 'node:crypto';
import { RelayError } from '../errors.ts';
import { decapsulate, encapsulate, kemPair } from './kem.ts';
import { NoisePublicKey } from './public-key.ts';
import { KEM_RANDOMNESS_BYTES, KEM_SEED_BYTES, X25519_BYTES } from './suite.ts';
import { x25519Pair } from './x25519.ts';

/** The long-lived keys of one end. */
export interface Identity {
  readonly publicKey: NoisePublicKey;
  readonly x25519Secret: KeyObject;
  readonly kemSecret: Uint8Array;
}

/**
 * Makes new keys, some forty milliseconds of work in a fresh process. They are tried out on the spot: a pair that does not fit is
 * noticed before anyone relies on it, and the first handshake finds the code compiled.
 */
export function createIdentity(): Identity {
  const [x25519Secret, kemSeed] = [randomBytes(X25519_BYTES), randomBytes(KEM_SEED_BYTES)];
  const identity = identityFrom(x25519Secret, kemSeed);
  x25519Secret.fill(0);
  kemSeed.fill(0);
  const { ciphertext, secret } = encapsulate(identity.publicKey.mlkem768, randomBytes(KEM_RANDOMNESS_BYTES));
  if (!timingSafeEqual(decapsulate(ciphertext, identity.kemSecret), secret)) {
    throw new RelayError('invalidKey', 'a new pair of keys does not fit together');
  }
  return identity;
}

/** The keys that 32 and 64 secret bytes stand for. */
export function identityFrom(x25519SecretBytes: Uint8Array, kemSeed: Uint8Array): Identity {
  const x25519 = x25519Pair(x25519SecretBytes);
  const kem = kemPair(kemSeed);
  return {
    publicKey: new NoisePublicKey(x25519.publicKey, kem.publicKey),
    x25519Secret: x25519.secret,
    kemSecret: kem.secretKey,
  };
}
