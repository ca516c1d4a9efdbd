import { timingSafeEqual } from 'node:crypto';
import { decodeBase64 } from '../../base/base64.ts';
import { RelayError } from '../errors.ts';
import { KEM_PUBLIC_BYTES, SUITE_TAG, X25519_BYTES } from './suite.ts';

/** A public key as registries and peers exchange it in JSON. */
export interface PublicKeyObject {
  readonly suite: string;
  readonly x25519_public_key: string;
  readonly mlkem768_public_key: string;
}

/** The public half of an identity. */
export class NoisePublicKey {
  readonly x25519: Uint8Array;
  readonly mlkem768: Uint8Array;

  constructor(x25519: Uint8Array, mlkem768: Uint8Array) {
    if (x25519.length !== X25519_BYTES || mlkem768.length !== KEM_PUBLIC_BYTES) {
      throw new RelayError('invalidKey', 'a public key has the wrong length');
    }
    this.x25519 = x25519;
    this.mlkem768 = mlkem768;
  }

  /** Parses a key object. Throws RelayError for any member besides the three known ones, which would otherwise go unchecked. */
  static parse(value: unknown): NoisePublicKey {
    if (typeof value !== 'object' || value === null || Object.keys(value).length !== 3) {
      throw new RelayError('invalidKey', 'a public key must be an object of three members');
    }
    const { suite, x25519_public_key: x25519, mlkem768_public_key: mlkem768 } = value as PublicKeyObject;
    if (suite !== SUITE_TAG)
      throw new RelayError('invalidKey', `the suite of a public key is not ${SUITE_TAG}`);
    return new NoisePublicKey(bytesOf(x25519), bytesOf(mlkem768));
  }

  equals(other: NoisePublicKey): boolean {
    return timingSafeEqual(this.x25519, other.x25519) && timingSafeEqual(this.mlkem768, other.mlkem768);
  }

  /** Returns the key object, with its members in the reference's order. */
  toJSON(): PublicKeyObject {
    return {
      suite: SUITE_TAG,
      x25519_public_key: Buffer.from(this.x25519).toString('base64'),
      mlkem768_public_key: Buffer.from(this.mlkem768).toString('base64'),
    };
  }
}

/** Decodes standard base64 with padding. */
function bytesOf(text: unknown): Uint8Array {
  const bytes = typeof text === 'string' ? decodeBase64(text) : null;
  if (bytes === null) throw new RelayError('invalidKey', 'a public key is not standard base64');
  return bytes;
}
