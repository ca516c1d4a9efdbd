import { createHash } from 'node:crypto';
import { x25519Pair, x25519Shared } from '../noise/primitives.ts';

/**
 * Opens a sealed box of libsodium (`crypto_box_seal`) for the holder of an Ed25519 seed. Throws when it is not for this key. Loads
 * XSalsa20-Poly1305 and BLAKE2b with a short digest, which Node does not have.
 */
export async function openSealedBox(seed: Uint8Array, sealed: Uint8Array): Promise<Buffer> {
  const [{ hsalsa, secretbox }, { blake2b }] = await Promise.all([
    import('@noble/ciphers/salsa.js'),
    import('@noble/hashes/blake2.js'),
  ]);
  // RFC 8032: the scalar of an Ed25519 key is the first half of the digest. X25519 clamps it.
  const recipient = x25519Pair(createHash('sha512').update(seed).digest().subarray(0, KEY_BYTES));
  const sender = sealed.subarray(0, KEY_BYTES);
  const nonce = blake2b(Buffer.concat([sender, recipient.publicKey]), { dkLen: NONCE_BYTES });
  const shared = x25519Shared(recipient.secret, sender);
  const key = new Uint32Array(KEY_BYTES / 4);
  hsalsa(words(Buffer.from(SIGMA)), words(shared), new Uint32Array(4), key);
  return Buffer.from(secretbox(bytes(key), nonce).open(sealed.subarray(KEY_BYTES)));
}

const KEY_BYTES = 32;
const NONCE_BYTES = 24;
/** The constant of Salsa20 for keys of 32 bytes. */
const SIGMA = 'expand 32-byte k';

function words(from: Buffer): Uint32Array {
  return Uint32Array.from({ length: from.length / 4 }, (_, index) => from.readUInt32LE(index * 4));
}

function bytes(from: Uint32Array): Buffer {
  const buffer = Buffer.alloc(from.length * 4);
  for (const [index, word] of from.entries()) buffer.writeUInt32LE(word, index * 4);
  return buffer;
}
