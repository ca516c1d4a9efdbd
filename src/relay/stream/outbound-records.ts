import { RECORD_BYTES } from '../limits.ts';

/** A message, or a piece of one, and what to do when its bytes have been copied. */
export interface OutboundPart {
  readonly bytes: Uint8Array;
  readonly released: (() => void) | undefined;
}

/** Each message has its length before it, in network order. */
export const LENGTH_BYTES = 4;

/** Messages that wait to be sent, and the records that they are cut into. Like with the reference a message begins a new record. */
export class OutboundRecords {
  #messages: OutboundMessage[] = [];
  #head = 0;
  #pendingBytes = 0;

  /** Bytes that are in no record yet. */
  get pendingBytes(): number {
    return this.#pendingBytes;
  }

  /** Adds a message of one or more parts. They must not change before they are released. */
  push(parts: readonly OutboundPart[]): void {
    const message = new OutboundMessage(parts);
    this.#messages.push(message);
    this.#pendingBytes += message.left;
  }

  /** The next record; null when nothing waits. */
  next(): Buffer | null {
    const message = this.#messages[this.#head];
    if (message === undefined) return null;
    const record = message.take(Math.min(message.left, RECORD_BYTES));
    this.#pendingBytes -= record.length;
    if (message.left === 0) this.#shift();
    return record;
  }

  /** At least half of the list is live, so what was sent is neither kept for long nor moved often. */
  #shift(): void {
    this.#head++;
    if (this.#head * 2 < this.#messages.length) return;
    this.#messages = this.#messages.slice(this.#head);
    this.#head = 0;
  }
}

/** A length and the parts behind it. */
class OutboundMessage {
  readonly #parts: OutboundPart[];
  #at = 0;
  left: number;

  constructor(parts: readonly OutboundPart[]) {
    const total = parts.reduce((sum, { bytes }) => sum + bytes.length, 0);
    const length = Buffer.alloc(LENGTH_BYTES);
    length.writeUInt32BE(total);
    this.#parts = [{ bytes: length, released: undefined }, ...parts.filter(({ bytes }) => bytes.length > 0)];
    this.left = LENGTH_BYTES + total;
  }

  /** A copy of the next so many bytes. */
  take(count: number): Buffer {
    const taken = Buffer.allocUnsafe(count);
    for (let filled = 0; filled < count; ) {
      const { bytes, released } = this.#parts[0]!;
      const piece = bytes.subarray(this.#at, this.#at + count - filled);
      taken.set(piece, filled);
      filled += piece.length;
      this.#at += piece.length;
      if (this.#at < bytes.length) break;
      this.#parts.shift();
      this.#at = 0;
      released?.();
    }
    this.left -= count;
    return taken;
  }
}
