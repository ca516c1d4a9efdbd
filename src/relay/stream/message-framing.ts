import { RelayError } from '../errors.ts';
import type { Segment } from '../frames/frame.ts';
import { ASSEMBLY_FIRST_BYTES, MAX_MESSAGE_BYTES, MAX_SEGMENTS, RECORD_BYTES } from '../limits.ts';

/** A message or a part of one. `released` is called after its bytes have been copied. */
export interface OutboundPart {
  readonly bytes: Uint8Array;
  readonly released: (() => void) | undefined;
}

/** The plaintext of a record. */
interface OutboundRecord {
  readonly bytes: Buffer;
  readonly segment: Segment | undefined;
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

  /**
   * Returns the next record, or null when the queue is empty. With `segmented`, records of a message that starts now and needs several
   * of them are numbered.
   */
  next(segmented: boolean): OutboundRecord | null {
    const message = this.#messages[this.#head];
    if (message === undefined) return null;
    const record = message.takeRecord(segmented);
    this.#pendingBytes -= record.bytes.length;
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
  /** The next segment; null when the records of the message are not numbered, undefined before the first record. */
  #segment: Segment | null | undefined;
  left: number;

  constructor(parts: readonly OutboundPart[]) {
    const total = parts.reduce((sum, { bytes }) => sum + bytes.length, 0);
    const length = Buffer.alloc(LENGTH_BYTES);
    length.writeUInt32BE(total);
    this.#parts = [{ bytes: length, released: undefined }, ...parts.filter(({ bytes }) => bytes.length > 0)];
    this.left = LENGTH_BYTES + total;
  }

  takeRecord(segmented: boolean): OutboundRecord {
    const count = Math.ceil(this.left / RECORD_BYTES);
    if (this.#segment === undefined) this.#segment = segmented && count > 1 ? { index: 0, count } : null;
    const segment = this.#segment ?? undefined;
    if (segment !== undefined) this.#segment = { index: segment.index + 1, count: segment.count };
    return { bytes: this.#take(Math.min(this.left, RECORD_BYTES)), segment };
  }

  /** Returns a copy of the next `count` bytes. */
  #take(count: number): Buffer {
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

  /** Whether no message is incomplete. */
  get idle(): boolean {
    return this.#length === null && this.#lengthKnown === 0;
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
        throw protocolError('the length of a message is invalid');
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

/**
 * Checks the segment numbers of records in order. The segments of a message are consecutive records, and together they carry exactly
 * this message. The reference has the numbers in its schema, but refuses all but 0 of 1.
 */
export class SegmentCheck {
  /** Sequence number and count of the incomplete segmented message. */
  #current: { readonly start: number; readonly count: number } | null = null;
  #used = false;

  /** Whether the peer has sent a segmented message. It can also receive one then. */
  get used(): boolean {
    return this.#used;
  }

  /** Checks a record before its bytes are added to the message. `idle` is whether a message may start here. */
  before(seq: number, segment: Segment | undefined, idle: boolean): void {
    if (segment === undefined && this.#current === null) return;
    const { index, count } = segment ?? { index: 0, count: 1 };
    const named = `segment ${index} of ${count}`;
    if (count === 0 || count > MAX_SEGMENTS || index >= count) {
      throw protocolError(`${named} is invalid: a message has 1 to ${MAX_SEGMENTS} segments, counted from 0`);
    }
    this.#current ??= { start: seq, count };
    const { start, count: expectedCount } = this.#current;
    if (seq - index !== start || count !== expectedCount) {
      throw protocolError(`${named} arrived instead of segment ${seq - start} of ${expectedCount}`);
    }
    if (index === 0 && !idle) throw protocolError('a segmented message starts inside another message');
  }

  /** Checks a record after its bytes were added and completed `messages` messages. */
  after(seq: number, messages: number, idle: boolean): void {
    if (this.#current === null) return;
    const { start, count } = this.#current;
    const last = seq - start === count - 1;
    if (last ? messages !== 1 || !idle : messages !== 0) {
      throw protocolError(`a message does not end with the last of its ${count} segments`);
    }
    this.#used = true;
    if (last) this.#current = null;
  }
}

function protocolError(message: string): RelayError {
  return new RelayError('protocol', message);
}
