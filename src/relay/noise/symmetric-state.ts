import { createHash, createHmac } from 'node:crypto';
import { openAesGcm, sealAesGcm } from './aes-gcm.ts';
import { PROTOCOL_NAME } from './suite.ts';

/** The two keys that a handshake ends with. */
export interface SplitKeys {
  readonly initiatorToResponder: Buffer;
  readonly responderToInitiator: Buffer;
}

/**
 * The running state of a handshake: a hash of all that was said, a chaining key of all secrets, and the key that they give. The names
 * of its operations are those of the Noise specification.
 */
export class SymmetricState {
  #hash = sha256(Buffer.from(PROTOCOL_NAME));
  #chainingKey: Buffer = Buffer.from(this.#hash);
  #key: Buffer | null = null;
  #nonce = 0;

  /** Of all that was said so far; at the end it names the channel. */
  get handshakeHash(): Buffer {
    return this.#hash;
  }

  mixHash(bytes: Uint8Array): void {
    this.#hash = sha256(this.#hash, bytes);
  }

  mixKey(secret: Uint8Array): void {
    const [chainingKey, key] = hkdf(this.#chainingKey, secret, 2);
    this.#replaceKeys(chainingKey!, key!);
  }

  mixKeyAndHash(secret: Uint8Array): void {
    const [chainingKey, hashed, key] = hkdf(this.#chainingKey, secret, 3);
    this.mixHash(hashed!);
    this.#replaceKeys(chainingKey!, key!);
  }

  /** Encrypts once there is a key; before that the bytes are only bound to the rest. */
  encryptAndHash(plaintext: Uint8Array): Uint8Array {
    const output =
      this.#key === null ? plaintext : sealAesGcm(this.#key, this.#nonce++, plaintext, this.#hash);
    this.mixHash(output);
    return output;
  }

  /** Throws RelayError when anything that was said until now differs between the two ends. */
  decryptAndHash(input: Uint8Array): Uint8Array {
    const plaintext = this.#key === null ? input : openAesGcm(this.#key, this.#nonce++, input, this.#hash);
    this.mixHash(input);
    return plaintext;
  }

  /** Ends the handshake. The state is of no use afterwards. */
  split(): SplitKeys {
    const [initiatorToResponder, responderToInitiator] = hkdf(this.#chainingKey, Buffer.alloc(0), 2);
    this.destroy();
    return { initiatorToResponder: initiatorToResponder!, responderToInitiator: responderToInitiator! };
  }

  /** Overwrites the secrets. */
  destroy(): void {
    this.#chainingKey.fill(0);
    this.#key?.fill(0);
  }

  #replaceKeys(chainingKey: Buffer, key: Buffer): void {
    this.destroy();
    this.#chainingKey = chainingKey;
    this.#key = key;
    this.#nonce = 0;
  }
}

function sha256(...parts: Uint8Array[]): Buffer {
  const hash = createHash('sha256');
  for (const part of parts) hash.update(part);
  return hash.digest();
}

/** Noise's HKDF: so many outputs of 32 bytes. */
function hkdf(chainingKey: Uint8Array, secret: Uint8Array, outputs: 2 | 3): Buffer[] {
  const extracted = createHmac('sha256', chainingKey).update(secret).digest();
  const keys: Buffer[] = [];
  let previous = Buffer.alloc(0);
  for (let index = 1; index <= outputs; index++) {
    previous = createHmac('sha256', extracted).update(previous).update(Buffer.of(index)).digest();
    keys.push(previous);
  }
  extracted.fill(0);
  return keys;
}
