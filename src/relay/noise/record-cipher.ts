import { createSecretKey, type KeyObject } from 'node:crypto';
import { RelayError } from '../errors.ts';
import { MAX_SEQ, RECORD_BYTES } from '../limits.ts';
import { openAesGcm, sealAesGcm } from './aes-gcm.ts';
import { TAG_BYTES } from './suite.ts';
import type { SplitKeys } from './symmetric-state.ts';

/** Protects the records of one direction. Records are numbered from 0 on both ends, and each number is used once. */
export class RecordCipher {
  readonly #key: KeyObject;
  #nextSeq: number;

  /** Takes the key over: its bytes are overwritten. */
  constructor(key: Uint8Array, nextSeq = 0) {
    this.#key = createSecretKey(key);
    key.fill(0);
    this.#nextSeq = nextSeq;
  }

  /** Number of the next record. */
  get nextSeq(): number {
    return this.#nextSeq;
  }

  /** Encrypts the next record. */
  seal(plaintext: Uint8Array): Buffer {
    return sealAesGcm(this.#key, this.#take(), plaintext);
  }

  /** Decrypts the next record. Throws RelayError when it is not the one that the peer sealed under this number. */
  open(record: Uint8Array): Buffer {
    if (record.length > RECORD_BYTES + TAG_BYTES) throw new RelayError('protocol', 'a record is too large');
    return openAesGcm(this.#key, this.#take(), record);
  }

  #take(): number {
    if (this.#nextSeq > MAX_SEQ) throw new RelayError('protocol', 'the stream has used up its numbers');
    return this.#nextSeq++;
  }
}

/** What one end encrypts and decrypts with. */
export interface ChannelCiphers {
  readonly sending: RecordCipher;
  readonly receiving: RecordCipher;
}

/** The ciphers of either end. */
export function channelCiphers(keys: SplitKeys, role: 'initiator' | 'responder'): ChannelCiphers {
  const forth = new RecordCipher(keys.initiatorToResponder);
  const back = new RecordCipher(keys.responderToInitiator);
  return role === 'initiator' ? { sending: forth, receiving: back } : { sending: back, receiving: forth };
}
