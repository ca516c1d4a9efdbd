import { RelayError } from '../errors.ts';

/** Takes a handshake message apart from front to back. */
export class MessageReader {
  readonly #message: Uint8Array;
  #at = 0;

  constructor(message: Uint8Array) {
    this.#message = message;
  }

  /** The next so many bytes. */
  take(length: number): Uint8Array {
    if (this.#at + length > this.#message.length)
      throw new RelayError('handshake', 'a handshake message is too short');
    const part = this.#message.subarray(this.#at, this.#at + length);
    this.#at += length;
    return part;
  }

  /** Everything that is left. */
  rest(): Uint8Array {
    return this.take(this.#message.length - this.#at);
  }
}
