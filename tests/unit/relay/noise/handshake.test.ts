import { createMlKem768 } from 'mlkem';
import { describe, expect, test } from 'vitest';
import { InitiatorHandshake, ResponderHandshake } from '../../../../src/relay/noise/handshake.ts';
import { createIdentity, type Identity } from '../../../../src/relay/noise/identity.ts';
import { decapsulate, encapsulate, kemPair } from '../../../../src/relay/noise/primitives.ts';
import { NoisePublicKey } from '../../../../src/relay/noise/public-key.ts';
import { RecordCipher } from '../../../../src/relay/noise/record-cipher.ts';
import { MESSAGE_2_BYTES, prologueOf, SUITE_TAG } from '../../../../src/relay/noise/suite.ts';
import {
  binding,
  executorRandom,
  harnessRandom,
  hex,
  identityOf,
  sha256Hex,
  vectors,
} from '../noise-vectors.ts';

const harness = identityOf(vectors.harness_static);
const executor = identityOf(vectors.executor_static);
const payload = Buffer.from(vectors.harness_key_authorization);

const startAsVector = () =>
  InitiatorHandshake.start({
    identity: harness,
    executorKey: executor.publicKey,
    binding,
    payload,
    random: harnessRandom(),
  });

describe('test vectors', () => {
  test.each(['harness_static', 'executor_static', 'harness_ephemeral', 'executor_ephemeral'] as const)(
    'keys: %s',
    (name) => {
      const { publicKey } = identityOf(vectors[name]);
      expect(Buffer.from(publicKey.x25519).toString('hex')).toBe(vectors[name].x25519_public);
      expect(publicKey.toJSON()).toEqual({
        suite: vectors.suite_tag,
        x25519_public_key: hex(vectors[name].x25519_public).toString('base64'),
        mlkem768_public_key: vectors[name].mlkem768_public_base64,
      });
      expect(sha256Hex(publicKey.mlkem768)).toBe(vectors[name].mlkem768_public_sha256);
    },
  );

  test('prologue', () => {
    expect(prologueOf(binding).toString('hex')).toBe(vectors.prologue_hex);
  });

  test('match in both messages, the hash and the records of both directions', async () => {
    const initiator = await startAsVector();
    expect(sha256Hex(initiator.message)).toBe(vectors.msg1_sha256);
    expect(initiator.message.toString('hex')).toBe(vectors.msg1_hex);
    const responder = await ResponderHandshake.read(initiator.message, {
      identity: executor,
      binding,
      random: executorRandom(),
    });
    expect(responder.harnessKey.equals(harness.publicKey)).toBe(true);
    expect(Buffer.from(responder.payload).toString()).toBe(vectors.harness_key_authorization);
    const answered = await responder.finish();
    expect(sha256Hex(answered.message)).toBe(vectors.msg2_sha256);
    expect(answered.message.toString('hex')).toBe(vectors.msg2_hex);
    const finished = await initiator.finish(answered.message);
    for (const { handshakeHash } of [answered, finished]) {
      expect(handshakeHash.toString('hex')).toBe(vectors.handshake_hash);
    }
    for (const [record, from, to] of [
      [vectors.record_h2e_0, finished.ciphers, answered.ciphers],
      [vectors.record_h2e_1, finished.ciphers, answered.ciphers],
      [vectors.record_e2h_0, answered.ciphers, finished.ciphers],
    ] as const) {
      const sealed = from.sending.seal(hex(record.plaintext_hex));
      expect(sealed.toString('hex')).toBe(record.ciphertext_hex);
      expect(to.receiving.open(sealed).toString('hex')).toBe(record.plaintext_hex);
    }
  });
});

test('the record keys match the test vectors', () => {
  for (const [key, { plaintext_hex, ciphertext_hex }] of [
    [vectors.key_harness_to_executor, vectors.record_h2e_0],
    [vectors.key_executor_to_harness, vectors.record_e2h_0],
  ] as const) {
    expect(new RecordCipher(hex(key)).open(hex(ciphertext_hex)).toString('hex')).toBe(plaintext_hex);
  }
});

describe('a handshake with fresh keys', () => {
  const [someone, another] = [createIdentity(), createIdentity()];

  test('gives both peers the same channel, and a new one each time', async () => {
    const [first, second] = [await connect(), await connect()];
    expect(first.finished.handshakeHash).toEqual(first.answered.handshakeHash);
    expect(first.finished.handshakeHash).not.toEqual(second.finished.handshakeHash);
    const record = first.finished.ciphers.sending.seal(Buffer.from('x'));
    expect(() => second.answered.ciphers.receiving.open(record)).toThrow('not authentic');
    expect(first.answered.ciphers.receiving.open(record).toString()).toBe('x');
  });

  test('carries an empty payload and one of 4096 bytes', async () => {
    for (const size of [0, 4096]) {
      const { responder } = await connect({ payload: Buffer.alloc(size, 1) });
      expect(responder.payload.length).toBe(size);
    }
  });

  test.each([
    ['another executor', { identity: another }],
    ['another environment', { binding: { ...binding, environmentId: 'env-2' } }],
    ['another registration', { binding: { ...binding, registrationId: '' } }],
    ['another stream', { binding: { ...binding, streamId: `${binding.streamId} ` } }],
  ])('is rejected by %s', async (_name, changed) => {
    const initiator = await start();
    const options = { identity: executor, binding, ...changed };
    await expect(ResponderHandshake.read(initiator.message, options)).rejects.toMatchObject({
      name: 'RelayError',
    });
  });

  test('fails when any bit of message 1 is changed', async () => {
    const { message } = await start();
    for (const at of [0, 1087, 1088, 1119, 1120, 2303, 2304, 2352, 3551, 3552, message.length - 1]) {
      const bad = Buffer.from(message);
      bad[at]! ^= 1;
      await expect(ResponderHandshake.read(bad, { identity: executor, binding })).rejects.toThrow();
    }
    for (const length of [0, 1, 1088, 3551, 3567, message.length - 1]) {
      const cut = message.subarray(0, length);
      await expect(ResponderHandshake.read(cut, { identity: executor, binding })).rejects.toThrow();
    }
  });

  test('fails when any bit of message 2 is changed', async () => {
    for (const at of [0, 1087, 1088, 2191, 2192, 2223, 2224, 3407, 3408, MESSAGE_2_BYTES - 1]) {
      const initiator = await start();
      const responder = await ResponderHandshake.read(initiator.message, { identity: executor, binding });
      const { message } = await responder.finish();
      message[at]! ^= 1;
      await expect(initiator.finish(message)).rejects.toThrow();
    }
    const initiator = await start();
    await expect(initiator.finish(Buffer.alloc(MESSAGE_2_BYTES + 1))).rejects.toThrow('wrong length');
    await expect(initiator.finish(hex(vectors.msg2_hex))).rejects.toThrow('not authentic');
  });

  test('rejects public keys that make secrets predictable', async () => {
    const { mlkem768, x25519 } = executor.publicKey;
    const order1 = { ...options(), executorKey: new NoisePublicKey(new Uint8Array(32), mlkem768) };
    await expect(InitiatorHandshake.start(order1)).rejects.toThrow('X25519 key');
    const tooLarge = new NoisePublicKey(x25519, new Uint8Array(1184).fill(255));
    await expect(InitiatorHandshake.start({ ...options(), executorKey: tooLarge })).rejects.toThrow(
      'ML-KEM key',
    );
  });

  const options = (identity: Identity = someone) => ({
    identity,
    executorKey: executor.publicKey,
    binding,
    payload,
  });
  const start = () => InitiatorHandshake.start(options());

  async function connect(changed: { payload?: Buffer } = {}) {
    const initiator = await InitiatorHandshake.start({ ...options(), ...changed });
    const responder = await ResponderHandshake.read(initiator.message, { identity: executor, binding });
    const answered = await responder.finish();
    return { responder, answered, finished: await initiator.finish(answered.message) };
  }
});

test('ML-KEM agrees with an independent implementation', async () => {
  const other = await createMlKem768();
  const seed = Buffer.alloc(64, 7);
  const [publicKey, secretKey] = other.deriveKeyPair(seed);
  const pair = kemPair(seed);
  expect(Buffer.from(pair.publicKey)).toEqual(Buffer.from(publicKey));
  const ours = encapsulate(publicKey, Buffer.alloc(32, 9));
  expect(Buffer.from(other.decap(ours.ciphertext, secretKey))).toEqual(Buffer.from(ours.secret));
  const [ciphertext, secret] = other.encap(pair.publicKey);
  expect(Buffer.from(decapsulate(ciphertext, pair.secretKey))).toEqual(Buffer.from(secret));
});

describe('a key object', () => {
  const good = executor.publicKey.toJSON();

  test('decodes to the encoded value', () => {
    const parsed = NoisePublicKey.parse(JSON.parse(JSON.stringify(good)));
    expect(parsed.equals(executor.publicKey)).toBe(true);
    expect(parsed.equals(harness.publicKey)).toBe(false);
    expect(Object.keys(good)).toEqual(['suite', 'x25519_public_key', 'mlkem768_public_key']);
    expect(good.suite).toBe(SUITE_TAG);
  });

  const { x25519_public_key: base64 } = good;
  test.each<[string, unknown]>([
    ['nothing', null],
    ['text', 'key'],
    ['a missing member', { suite: good.suite, x25519_public_key: base64 }],
    ['an additional member', { ...good, comment: '' }],
    ['another suite', { ...good, suite: 'Noise_hybridIK_25519+MLKEM768_AESGCM_SHA256' }],
    ['a number', { ...good, x25519_public_key: 1 }],
    ['base64 without padding', { ...good, x25519_public_key: base64.replace('=', '') }],
    ['base64 for URLs', { ...good, x25519_public_key: Buffer.alloc(32, 255).toString('base64url') }],
    ['blanks', { ...good, x25519_public_key: ` ${base64}` }],
    ['a short key', { ...good, x25519_public_key: Buffer.alloc(31).toString('base64') }],
    ['a long key', { ...good, mlkem768_public_key: Buffer.alloc(1185).toString('base64') }],
  ])('is rejected with %s', (_name, value) => {
    expect(() => NoisePublicKey.parse(value)).toThrow(expect.objectContaining({ kind: 'invalidKey' }));
  });
});
