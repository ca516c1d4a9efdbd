import { RelayError } from '../errors.ts';
import { ASSEMBLY_FIRST_BYTES, MAX_MESSAGE_BYTES } from '../limits.ts';
import { LENGTH_BYTES } from './outbound-records.ts';

/** Cuts the bytes of decrypted records into messages: each has its length before it, and neither needs to fit a record. */
export class MessageAssembler {
  readonly #lengthBytes = Buffer.alloc(LENGTH_BYTES);
  #lengthKnown = 0;
  /** Length of the message under way; null between messages. */
  #length: number | null = null;
  #buffer: Buffer = Buffer.alloc(0);
  #filled = 0;

  /** Bytes of the message that is arriving. */
  get heldBytes(): number {
    return this.#buffer.length;
  }

  /** Yields the messages that these bytes complete. Throws RelayError when a length is not allowed. */
  *push(bytes: Buffer): Generator<Buffer> {
    let rest = bytes;
    while (rest.length > 0) {
      if (this.#length === null) {
        rest = this.#takeLength(rest);
        continue;
      }
      if (this.#filled === 0 && rest.length >= this.#length) {
        const message = rest.subarray(0, this.#length);
        rest = rest.subarray(this.#length);
        this.#reset();
        yield message;
        continue;
      }
      rest = this.#append(rest, this.#length);
      if (this.#filled < this.#length) return;
      const message = this.#buffer.subarray(0, this.#filled);
      this.#reset();
      yield message;
    }
  }

  /** Returns what stands behind the length, or behind the part of it that has come. */
  #takeLength(bytes: Buffer): Buffer {
    const copied = bytes.copy(this.#lengthBytes, this.#lengthKnown);
    this.#lengthKnown += copied;
    if (this.#lengthKnown === LENGTH_BYTES) {
      const length = this.#lengthBytes.readUInt32BE();
      if (length === 0 || length > MAX_MESSAGE_BYTES) {
        throw new RelayError('protocol', 'the length of a message is not allowed');
      }
      this.#length = length;
    }
    return bytes.subarray(copied);
  }

  #append(bytes: Buffer, length: number): Buffer {
    const part = bytes.subarray(0, length - this.#filled);
    this.#reserve(this.#filled + part.length, length);
    part.copy(this.#buffer, this.#filled);
    this.#filled += part.length;
    return bytes.subarray(part.length);
  }

  /** Doubles the buffer until `needed` fits, so that an announced length alone costs nothing. */
  #reserve(needed: number, length: number): void {
    if (needed <= this.#buffer.length) return;
    const size = Math.max(needed, 2 * this.#buffer.length, ASSEMBLY_FIRST_BYTES);
    const grown = Buffer.allocUnsafeSlow(Math.min(size, length));
    this.#buffer.copy(grown, 0, 0, this.#filled);
    this.#buffer = grown;
  }

  #reset(): void {
    this.#length = null;
    this.#lengthKnown = 0;
    this.#buffer = Buffer.alloc(0);
    this.#filled = 0;
  }
}
