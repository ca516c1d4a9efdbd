import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
import type { RandomSource } from '../../../src/relay/noise/handshake.ts';
import { type Identity, identityFrom } from '../../../src/relay/noise/identity.ts';

/** The keys of one peer. */
interface VectorKeys {
  readonly x25519_private: string;
  readonly x25519_public: string;
  readonly mlkem768_seed_d_z: string;
  readonly mlkem768_public_sha256: string;
  readonly mlkem768_public_base64: string;
}

interface VectorRecord {
  readonly plaintext_hex: string;
  readonly ciphertext_hex: string;
}

/** A handshake and some traffic with known secrets, computed independently of this code. */
export const vectors = JSON.parse(
  readFileSync(new URL('../../fixtures/noise-vectors.json', import.meta.url), 'utf8'),
) as {
  readonly suite_tag: string;
  readonly environment_id: string;
  readonly executor_registration_id: string;
  readonly stream_id: string;
  readonly harness_key_authorization: string;
  readonly prologue_hex: string;
  readonly harness_static: VectorKeys;
  readonly executor_static: VectorKeys;
  readonly harness_ephemeral: VectorKeys;
  readonly executor_ephemeral: VectorKeys;
  readonly msg1_skem_m: string;
  readonly msg2_ekem_m: string;
  readonly msg2_skem_m: string;
  readonly msg1_hex: string;
  readonly msg1_sha256: string;
  readonly msg2_hex: string;
  readonly msg2_sha256: string;
  readonly handshake_hash: string;
  readonly key_harness_to_executor: string;
  readonly key_executor_to_harness: string;
  readonly record_h2e_0: VectorRecord;
  readonly record_h2e_1: VectorRecord;
  readonly record_e2h_0: VectorRecord;
  readonly frames: Readonly<Record<string, string>>;
};

export const binding = {
  environmentId: vectors.environment_id,
  registrationId: vectors.executor_registration_id,
  streamId: vectors.stream_id,
};

export const hex = (text: string): Buffer => Buffer.from(text, 'hex');
export const sha256Hex = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

export const identityOf = (keys: VectorKeys): Identity =>
  identityFrom(hex(keys.x25519_private), hex(keys.mlkem768_seed_d_z));

/** Returns these bytes in order and checks the requested lengths. */
export function fixedRandom(...values: string[]): RandomSource {
  return (length) => {
    const value = hex(values.shift() ?? '');
    if (value.length !== length) throw new Error(`${length} random bytes are not in the script`);
    return value;
  };
}

/** The random bytes of the harness and of the executor in the test vectors. */
export const harnessRandom = (): RandomSource =>
  fixedRandom(
    vectors.msg1_skem_m,
    vectors.harness_ephemeral.x25519_private,
    vectors.harness_ephemeral.mlkem768_seed_d_z,
  );
export const executorRandom = (): RandomSource =>
  fixedRandom(
    vectors.msg2_ekem_m,
    vectors.msg2_skem_m,
    vectors.executor_ephemeral.x25519_private,
    vectors.executor_ephemeral.mlkem768_seed_d_z,
  );
