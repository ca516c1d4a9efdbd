import { createHash, createHmac } from 'node:crypto';
import { openAesGcm, sealAesGcm } from './primitives.ts';
import { PROTOCOL_NAME } from './suite.ts';

/** The two keys that a handshake produces. */
export interface SplitKeys {
  readonly initiatorToResponder: Buffer;
  readonly responderToInitiator: Buffer;
}

/**
 * The state of a running handshake: a hash of the transcript, a chaining key made of all secrets, and the current cipher key. The
 * operations have the names of the Noise specification (https://noiseprotocol.org/noise.html, section 5.2).
 */
export class SymmetricState {
  #hash = sha256(Buffer.from(PROTOCOL_NAME));
  #chainingKey: Buffer = Buffer.from(this.#hash);
  #key: Buffer | null = null;
  #nonce = 0;

  /** Hash of the transcript so far. At the end it identifies the channel. */
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

  /** Encrypts if a key is set. Without a key it only adds the bytes to the transcript hash. */
  encryptAndHash(plaintext: Uint8Array): Uint8Array {
    const output =
      this.#key === null ? plaintext : sealAesGcm(this.#key, this.#nonce++, plaintext, this.#hash);
    this.mixHash(output);
    return output;
  }

  /** Throws RelayError when the transcripts of the two peers differ. */
  decryptAndHash(input: Uint8Array): Uint8Array {
    const plaintext = this.#key === null ? input : openAesGcm(this.#key, this.#nonce++, input, this.#hash);
    this.mixHash(input);
    return plaintext;
  }

  /** Ends the handshake. The state cannot be used afterwards. */
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

/** Noise's HKDF with two or three outputs of 32 bytes. */
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
