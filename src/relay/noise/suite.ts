/** Name of the suite in public keys. */
export const SUITE_TAG = 'Noise_hybridIK_X25519+MLKEM768_AESGCM_SHA256';

/** Name that both ends hash at the beginning of a handshake. It differs from the tag in one letter. */
export const PROTOCOL_NAME = 'Noise_hybridIK_25519+MLKEM768_AESGCM_SHA256';

/** What a registry calls this way of protecting streams. */
export const SECURITY_PROFILE = 'noise_hybrid_ik_v1';

/** Sizes that X25519, ML-KEM-768 and AES-GCM prescribe. */
export const X25519_BYTES = 32;
export const KEM_PUBLIC_BYTES = 1_184;
export const KEM_CIPHERTEXT_BYTES = 1_088;
export const KEM_SEED_BYTES = 64;
export const KEM_RANDOMNESS_BYTES = 32;
export const TAG_BYTES = 16;

/** The second message carries nothing of its own, so that its length is fixed. */
export const MESSAGE_2_BYTES =
  2 * KEM_CIPHERTEXT_BYTES + TAG_BYTES + X25519_BYTES + KEM_PUBLIC_BYTES + TAG_BYTES;

/** Which stream of which registration a handshake is for. */
export interface StreamBinding {
  readonly environmentId: string;
  readonly registrationId: string;
  readonly streamId: string;
}

/** What both ends must agree on before the first message: a handshake for one stream is worthless for any other. */
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
