import { createSecretKey, type KeyObject } from 'node:crypto';
import { RelayError } from '../errors.ts';
import { MAX_SEQ, RECORD_BYTES } from '../limits.ts';
import { openAesGcm, sealAesGcm } from './primitives.ts';
import { TAG_BYTES } from './suite.ts';
import type { SplitKeys } from './symmetric-state.ts';

/** Encrypts or decrypts the records of one direction. Both peers number the records from 0 and use each number once. */
export class RecordCipher {
  readonly #key: KeyObject;
  #nextSeq: number;

  /** Takes ownership of the key and overwrites its bytes. */
  constructor(key: Uint8Array, nextSeq = 0) {
    this.#key = createSecretKey(key);
    key.fill(0);
    this.#nextSeq = nextSeq;
  }

  /** Sequence number of the next record. */
  get nextSeq(): number {
    return this.#nextSeq;
  }

  /** Encrypts the next record. */
  seal(plaintext: Uint8Array): Buffer {
    return sealAesGcm(this.#key, this.#take(), plaintext);
  }

  /** Decrypts the next record. Throws RelayError unless the peer encrypted it with this sequence number. */
  open(record: Uint8Array): Buffer {
    if (record.length > RECORD_BYTES + TAG_BYTES) throw new RelayError('protocol', 'a record is too large');
    return openAesGcm(this.#key, this.#take(), record);
  }

  #take(): number {
    if (this.#nextSeq > MAX_SEQ)
      throw new RelayError('protocol', 'the stream has used all its sequence numbers');
    return this.#nextSeq++;
  }
}

/** The ciphers of one peer. */
export interface ChannelCiphers {
  readonly sending: RecordCipher;
  readonly receiving: RecordCipher;
}

/** Creates the ciphers of one peer from the keys of the handshake. */
export function channelCiphers(keys: SplitKeys, role: 'initiator' | 'responder'): ChannelCiphers {
  const forward = new RecordCipher(keys.initiatorToResponder);
  const backward = new RecordCipher(keys.responderToInitiator);
  return role === 'initiator'
    ? { sending: forward, receiving: backward }
    : { sending: backward, receiving: forward };
}
