/** Name of the suite in public keys. */
export const SUITE_TAG = 'Noise_hybridIK_X25519+MLKEM768_AESGCM_SHA256';

/** Protocol name that both peers hash first in a handshake. It differs from the tag in one letter. */
export const PROTOCOL_NAME = 'Noise_hybridIK_25519+MLKEM768_AESGCM_SHA256';

/** The registry's name for this encryption. */
export const SECURITY_PROFILE = 'noise_hybrid_ik_v1';

/** Sizes defined by X25519, ML-KEM-768 and AES-GCM. */
export const X25519_BYTES = 32;
export const KEM_PUBLIC_BYTES = 1_184;
export const KEM_CIPHERTEXT_BYTES = 1_088;
export const KEM_SEED_BYTES = 64;
export const KEM_RANDOMNESS_BYTES = 32;
export const TAG_BYTES = 16;

/** Message 2 has an empty payload, therefore a fixed length. */
export const MESSAGE_2_BYTES =
  2 * KEM_CIPHERTEXT_BYTES + TAG_BYTES + X25519_BYTES + KEM_PUBLIC_BYTES + TAG_BYTES;

/** The stream and registration that a handshake belongs to. */
export interface StreamBinding {
  readonly environmentId: string;
  readonly registrationId: string;
  readonly streamId: string;
}

/** The data that both peers must agree on before message 1. It makes a handshake for one stream useless for any other. */
export function prologueOf({ environmentId, registrationId, streamId }: StreamBinding): Buffer {
  return Buffer.concat([PROLOGUE_DOMAIN, environmentId, registrationId, streamId].flatMap(lengthAndBytes));
}

const PROLOGUE_DOMAIN = 'codex-exec-server-relay-noise/v1';

function lengthAndBytes(text: string): [Buffer, Buffer] {
  const bytes = Buffer.from(text);
  const length = Buffer.alloc(8);
  length.writeBigUInt64BE(BigInt(bytes.length));
  return [length, bytes];
}
