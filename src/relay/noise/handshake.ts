import { randomBytes } from 'node:crypto';
import { RelayError } from '../errors.ts';
import type { Identity } from './identity.ts';
import {
  decapsulate,
  encapsulate,
  type KemPair,
  kemPair,
  type X25519Pair,
  x25519Pair,
  x25519Shared,
} from './primitives.ts';
import { NoisePublicKey } from './public-key.ts';
import { type ChannelCiphers, channelCiphers } from './record-cipher.ts';
import {
  KEM_CIPHERTEXT_BYTES,
  KEM_PUBLIC_BYTES,
  KEM_RANDOMNESS_BYTES,
  KEM_SEED_BYTES,
  MESSAGE_2_BYTES,
  prologueOf,
  type StreamBinding,
  TAG_BYTES,
  X25519_BYTES,
} from './suite.ts';
import { SymmetricState } from './symmetric-state.ts';

/** Returns random bytes. Tests pass known ones. */
export type RandomSource = (length: number) => Uint8Array;

/** A finished handshake. Only its two peers can compute the hash. */
export interface Channel {
  readonly ciphers: ChannelCiphers;
  readonly handshakeHash: Buffer;
}

/** Inputs of the harness. `payload` reaches the executor encrypted. */
interface InitiatorOptions {
  readonly identity: Identity;
  readonly executorKey: NoisePublicKey;
  readonly binding: StreamBinding;
  readonly payload: Uint8Array;
  readonly random?: RandomSource;
}

/**
 * The harness's side. It knows the executor's key in advance and proves its own identity with message 1. Tokens of message 1: skem, e,
 * es, s, ss; of message 2: ekem, skem, e, ee, se.
 */
export class InitiatorHandshake {
  /** Message 1. */
  readonly message: Buffer;
  readonly #state: SymmetricState;
  readonly #identity: Identity;
  readonly #ephemeral: Ephemeral;

  private constructor(message: Buffer, state: SymmetricState, identity: Identity, ephemeral: Ephemeral) {
    this.message = message;
    this.#state = state;
    this.#identity = identity;
    this.#ephemeral = ephemeral;
  }

  static async start(options: InitiatorOptions): Promise<InitiatorHandshake> {
    const { identity, executorKey, binding, payload, random = randomBytes } = options;
    const state = startState(binding, executorKey);
    const toStatic = await encapsulateTo(executorKey.mlkem768, random);
    const parts = [state.encryptAndHash(toStatic.ciphertext)];
    mixSecret(state, 'keyAndHash', toStatic.secret);
    const ephemeral = await createEphemeral(random);
    parts.push(...announce(state, ephemeral));
    mixSecret(state, 'key', x25519Shared(ephemeral.x25519.secret, executorKey.x25519));
    parts.push(state.encryptAndHash(identity.publicKey.x25519));
    parts.push(state.encryptAndHash(identity.publicKey.mlkem768));
    mixSecret(state, 'key', x25519Shared(identity.x25519Secret, executorKey.x25519));
    parts.push(state.encryptAndHash(payload));
    return new InitiatorHandshake(Buffer.concat(parts), state, identity, ephemeral);
  }

  /** Reads message 2. Throws RelayError when it does not come from the executor or belongs to another stream. */
  async finish(message: Uint8Array): Promise<Channel> {
    if (message.length !== MESSAGE_2_BYTES)
      throw new RelayError('handshake', 'message 2 has the wrong length');
    const [state, ephemeral] = [this.#state, this.#ephemeral];
    const reader = new MessageReader(message);
    try {
      const toEphemeral = reader.take(KEM_CIPHERTEXT_BYTES);
      state.mixHash(toEphemeral);
      mixSecret(state, 'key', await decapsulateWith(toEphemeral, ephemeral.kem.secretKey));
      const toStatic = state.decryptAndHash(reader.take(KEM_CIPHERTEXT_BYTES + TAG_BYTES));
      mixSecret(state, 'keyAndHash', await decapsulateWith(toStatic, this.#identity.kemSecret));
      const remote = readEphemeral(state, reader);
      mixSecret(state, 'key', x25519Shared(ephemeral.x25519.secret, remote.x25519));
      mixSecret(state, 'key', x25519Shared(this.#identity.x25519Secret, remote.x25519));
      state.decryptAndHash(reader.rest());
      return { handshakeHash: state.handshakeHash, ciphers: channelCiphers(state.split(), 'initiator') };
    } finally {
      this.destroy();
    }
  }

  /** Overwrites the secrets of an abandoned handshake. */
  destroy(): void {
    this.#state.destroy();
    this.#ephemeral.kem.secretKey.fill(0);
  }
}

/** Inputs of the executor. */
interface ResponderOptions {
  readonly identity: Identity;
  readonly binding: StreamBinding;
  readonly random?: RandomSource;
}

/** The executor's side. After {@link read} the caller can authorize the harness; {@link finish} then admits it. */
export class ResponderHandshake {
  readonly harnessKey: NoisePublicKey;
  readonly payload: Uint8Array;
  readonly #state: SymmetricState;
  readonly #remote: NoisePublicKey;
  readonly #random: RandomSource;

  private constructor(
    state: SymmetricState,
    harnessKey: NoisePublicKey,
    remoteEphemeral: NoisePublicKey,
    payload: Uint8Array,
    random: RandomSource,
  ) {
    this.#state = state;
    this.harnessKey = harnessKey;
    this.#remote = remoteEphemeral;
    this.payload = payload;
    this.#random = random;
  }

  /** Reads message 1. Throws RelayError when it was made for another executor, registration or stream. */
  static async read(message: Uint8Array, options: ResponderOptions): Promise<ResponderHandshake> {
    const { identity, binding, random = randomBytes } = options;
    const state = startState(binding, identity.publicKey);
    const reader = new MessageReader(message);
    try {
      const toStatic = state.decryptAndHash(reader.take(KEM_CIPHERTEXT_BYTES));
      mixSecret(state, 'keyAndHash', await decapsulateWith(toStatic, identity.kemSecret));
      const remote = readEphemeral(state, reader);
      mixSecret(state, 'key', x25519Shared(identity.x25519Secret, remote.x25519));
      const x25519 = state.decryptAndHash(reader.take(X25519_BYTES + TAG_BYTES));
      const mlkem768 = state.decryptAndHash(reader.take(KEM_PUBLIC_BYTES + TAG_BYTES));
      mixSecret(state, 'key', x25519Shared(identity.x25519Secret, x25519));
      const payload = state.decryptAndHash(reader.rest());
      return new ResponderHandshake(state, new NoisePublicKey(x25519, mlkem768), remote, payload, random);
    } catch (error) {
      state.destroy();
      throw error;
    }
  }

  /** Creates message 2. Throws RelayError when the harness's keys are not usable. */
  async finish(): Promise<Channel & { readonly message: Buffer }> {
    const state = this.#state;
    try {
      const toEphemeral = await encapsulateTo(this.#remote.mlkem768, this.#random);
      state.mixHash(toEphemeral.ciphertext);
      mixSecret(state, 'key', toEphemeral.secret);
      const toStatic = await encapsulateTo(this.harnessKey.mlkem768, this.#random);
      const parts = [toEphemeral.ciphertext, state.encryptAndHash(toStatic.ciphertext)];
      mixSecret(state, 'keyAndHash', toStatic.secret);
      const ephemeral = await createEphemeral(this.#random);
      parts.push(...announce(state, ephemeral));
      mixSecret(state, 'key', x25519Shared(ephemeral.x25519.secret, this.#remote.x25519));
      mixSecret(state, 'key', x25519Shared(ephemeral.x25519.secret, this.harnessKey.x25519));
      ephemeral.kem.secretKey.fill(0);
      parts.push(state.encryptAndHash(new Uint8Array()));
      const message = Buffer.concat(parts);
      const { handshakeHash } = state;
      return { message, handshakeHash, ciphers: channelCiphers(state.split(), 'responder') };
    } finally {
      this.destroy();
    }
  }

  /** Overwrites the secrets of an abandoned handshake. */
  destroy(): void {
    this.#state.destroy();
  }
}

/** Keys of one handshake. */
interface Ephemeral {
  readonly x25519: X25519Pair;
  readonly kem: KemPair;
}

function startState(binding: StreamBinding, executorKey: NoisePublicKey): SymmetricState {
  const state = new SymmetricState();
  state.mixHash(prologueOf(binding));
  state.mixHash(executorKey.x25519);
  state.mixHash(executorKey.mlkem768);
  return state;
}

async function createEphemeral(random: RandomSource): Promise<Ephemeral> {
  await exclusiveTick();
  const [x25519Secret, kemSeed] = [random(X25519_BYTES), random(KEM_SEED_BYTES)];
  const ephemeral = { x25519: x25519Pair(x25519Secret), kem: kemPair(kemSeed) };
  x25519Secret.fill(0);
  kemSeed.fill(0);
  return ephemeral;
}

/** Mixes the public keys into the state and returns them as they appear in a message. */
function announce(state: SymmetricState, { x25519, kem }: Ephemeral): [Uint8Array, Uint8Array] {
  state.mixHash(x25519.publicKey);
  state.mixHash(kem.publicKey);
  return [x25519.publicKey, kem.publicKey];
}

function readEphemeral(state: SymmetricState, reader: MessageReader): NoisePublicKey {
  const x25519 = reader.take(X25519_BYTES);
  const mlkem768 = reader.take(KEM_PUBLIC_BYTES);
  state.mixHash(x25519);
  state.mixHash(mlkem768);
  return new NoisePublicKey(x25519, mlkem768);
}

async function encapsulateTo(publicKey: Uint8Array, random: RandomSource) {
  await exclusiveTick();
  const randomness = random(KEM_RANDOMNESS_BYTES);
  const encapsulation = encapsulate(publicKey, randomness);
  randomness.fill(0);
  return encapsulation;
}

async function decapsulateWith(ciphertext: Uint8Array, secretKey: Uint8Array): Promise<Uint8Array> {
  await exclusiveTick();
  return decapsulate(ciphertext, secretKey);
}

/** Mixes a shared secret into the state and overwrites it. */
function mixSecret(state: SymmetricState, into: 'key' | 'keyAndHash', secret: Uint8Array): void {
  if (into === 'key') state.mixKey(secret);
  else state.mixKeyAndHash(secret);
  secret.fill(0);
}

/** Reads a handshake message from front to back. */
class MessageReader {
  readonly #message: Uint8Array;
  #offset = 0;

  constructor(message: Uint8Array) {
    this.#message = message;
  }

  /** Returns the next `length` bytes. */
  take(length: number): Uint8Array {
    if (this.#offset + length > this.#message.length)
      throw new RelayError('handshake', 'the handshake message is too short');
    const part = this.#message.subarray(this.#offset, this.#offset + length);
    this.#offset += length;
    return part;
  }

  /** Returns the remaining bytes. */
  rest(): Uint8Array {
    return this.take(this.#message.length - this.#offset);
  }
}

/**
 * Resolves in an iteration of the event loop that no other caller gets. An ML-KEM operation takes about a millisecond. With one
 * operation per iteration the loop stays responsive under any number of handshakes. A worker thread would take the work off the loop,
 * but starting it takes longer than ten handshakes, and it would receive copies of the secrets.
 */
function exclusiveTick(): Promise<void> {
  lastTick = lastTick.then(() => new Promise<void>((resolve) => setImmediate(resolve)));
  return lastTick;
}

let lastTick: Promise<void> = Promise.resolve();
