import { RelayError } from '../errors.ts';
import { ASSEMBLY_FIRST_BYTES, MAX_MESSAGE_BYTES, RECORD_BYTES } from '../limits.ts';

/** A message or a part of one. `released` is called after its bytes have been copied. */
export interface OutboundPart {
  readonly bytes: Uint8Array;
  readonly released: (() => void) | undefined;
}

/** Each message has a length prefix in network order. */
const LENGTH_BYTES = 4;

/** Queues messages and splits them into records. Like in the reference, each message starts a new record. */
export class OutboundRecords {
  #messages: OutboundMessage[] = [];
  #head = 0;
  #pendingBytes = 0;

  /** Bytes that are not in a record yet. */
  get pendingBytes(): number {
    return this.#pendingBytes;
  }

  /** Adds a message of one or more parts. The caller must not change them before they are released. */
  push(parts: readonly OutboundPart[]): void {
    const message = new OutboundMessage(parts);
    this.#messages.push(message);
    this.#pendingBytes += message.left;
  }

  /** Returns the next record, or null when the queue is empty. */
  next(): Buffer | null {
    const message = this.#messages[this.#head];
    if (message === undefined) return null;
    const record = message.take(Math.min(message.left, RECORD_BYTES));
    this.#pendingBytes -= record.length;
    if (message.left === 0) this.#shift();
    return record;
  }

  /** Compacts the list when less than half of it is live. This bounds both memory and copying. */
  #shift(): void {
    this.#head++;
    if (this.#head * 2 < this.#messages.length) return;
    this.#messages = this.#messages.slice(this.#head);
    this.#head = 0;
  }
}

/** A length prefix and the parts after it. */
class OutboundMessage {
  readonly #parts: OutboundPart[];
  #offset = 0;
  left: number;

  constructor(parts: readonly OutboundPart[]) {
    const total = parts.reduce((sum, { bytes }) => sum + bytes.length, 0);
    const length = Buffer.alloc(LENGTH_BYTES);
    length.writeUInt32BE(total);
    this.#parts = [{ bytes: length, released: undefined }, ...parts.filter(({ bytes }) => bytes.length > 0)];
    this.left = LENGTH_BYTES + total;
  }

  /** Returns a copy of the next `count` bytes. */
  take(count: number): Buffer {
    const taken = Buffer.allocUnsafe(count);
    for (let filled = 0; filled < count; ) {
      const { bytes, released } = this.#parts[0]!;
      const piece = bytes.subarray(this.#offset, this.#offset + count - filled);
      taken.set(piece, filled);
      filled += piece.length;
      this.#offset += piece.length;
      if (this.#offset < bytes.length) break;
      this.#parts.shift();
      this.#offset = 0;
      released?.();
    }
    this.left -= count;
    return taken;
  }
}

/** Joins decrypted records into messages. A message and its length prefix may span records. */
export class MessageAssembler {
  readonly #lengthBytes = Buffer.alloc(LENGTH_BYTES);
  #lengthKnown = 0;
  /** Length of the incomplete message; null between messages. */
  #length: number | null = null;
  #buffer: Buffer = Buffer.alloc(0);
  #filled = 0;

  /** Bytes allocated for the incomplete message. */
  get heldBytes(): number {
    return this.#buffer.length;
  }

  /** Yields the messages that these bytes complete. Throws RelayError for an invalid length. */
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

  /** Reads the length prefix, or a part of it, and returns the bytes after it. */
  #takeLength(bytes: Buffer): Buffer {
    const copied = bytes.copy(this.#lengthBytes, this.#lengthKnown);
    this.#lengthKnown += copied;
    if (this.#lengthKnown === LENGTH_BYTES) {
      const length = this.#lengthBytes.readUInt32BE();
      if (length === 0 || length > MAX_MESSAGE_BYTES) {
        throw new RelayError('protocol', 'the length of a message is invalid');
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

  /** Grows the buffer to fit `needed`. It follows the received bytes, so an announced length alone allocates nothing. */
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
