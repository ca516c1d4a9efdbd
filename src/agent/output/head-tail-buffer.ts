/**
 * Keeps the first and the last bytes of a stream, half of the capacity each, and counts the omitted bytes between them. It copies
 * bytes and allocates memory as they arrive.
 */
export class HeadTailBuffer {
  readonly capacity: number;
  readonly #headCapacity: number;
  #head: Uint8Array = EMPTY;
  #headLength = 0;
  #tail: Ring;
  #totalBytes = 0;

  constructor(capacity: number) {
    this.capacity = capacity;
    this.#headCapacity = Math.floor(capacity / 2);
    this.#tail = new Ring(capacity - this.#headCapacity);
  }

  /** Number of bytes that were pushed. */
  get totalBytes(): number {
    return this.#totalBytes;
  }

  get omittedBytes(): number {
    return this.#totalBytes - this.#headLength - this.#tail.length;
  }

  get head(): Uint8Array {
    return this.#head.slice(0, this.#headLength);
  }

  get tail(): Uint8Array {
    return this.#tail.bytes();
  }

  push(bytes: Uint8Array): void {
    this.#totalBytes += bytes.length;
    const forHead = Math.min(bytes.length, this.#headCapacity - this.#headLength);
    if (forHead > 0) {
      this.#head = grown(this.#head, this.#headLength + forHead, this.#headCapacity);
      this.#head.set(bytes.subarray(0, forHead), this.#headLength);
      this.#headLength += forHead;
    }
    if (forHead < bytes.length) this.#tail.push(bytes.subarray(forHead));
  }

  /**
   * Appends another buffer, as if its whole stream were pushed here, including the omitted bytes. The other must have at least this
   * capacity; otherwise it lacks bytes that this one would keep.
   */
  append(other: HeadTailBuffer): void {
    if (other.capacity < this.capacity) throw new RangeError('a smaller buffer cannot be appended');
    this.push(other.head);
    // When bytes are omitted, both halves of the other are full: its head fills this head, its tail replaces this tail.
    this.#totalBytes += other.omittedBytes;
    this.push(other.tail);
  }

  /** Returns the content and empties this buffer. */
  take(): HeadTailBuffer {
    const taken = new HeadTailBuffer(this.capacity);
    taken.#head = this.#head;
    taken.#headLength = this.#headLength;
    taken.#tail = this.#tail;
    taken.#totalBytes = this.#totalBytes;
    this.#head = EMPTY;
    this.#headLength = 0;
    this.#tail = new Ring(this.capacity - this.#headCapacity);
    this.#totalBytes = 0;
    return taken;
  }

  /** The content as text. A line with the number of omitted bytes replaces them. */
  render(): Uint8Array {
    const marker = this.omittedBytes > 0 ? `\n${omissionMarker(this.omittedBytes)}\n` : '';
    return Buffer.concat([this.head, Buffer.from(marker), this.tail]);
  }
}

export function omissionMarker(omittedBytes: number): string {
  return `... ${omittedBytes} bytes omitted ...`;
}

const EMPTY = new Uint8Array(0);
const FIRST_CAPACITY = 1024;

/** The last bytes of a stream. */
class Ring {
  readonly #capacity: number;
  #bytes: Uint8Array = EMPTY;
  #start = 0;
  length = 0;

  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  push(bytes: Uint8Array): void {
    const kept = bytes.subarray(Math.max(0, bytes.length - this.#capacity));
    if (kept.length === 0) return;
    this.#evictFor(kept.length);
    const end = (this.#start + this.length) % this.#bytes.length;
    const untilWrap = Math.min(kept.length, this.#bytes.length - end);
    this.#bytes.set(kept.subarray(0, untilWrap), end);
    this.#bytes.set(kept.subarray(untilWrap), 0);
    this.length += kept.length;
  }

  bytes(): Uint8Array {
    const untilWrap = Math.min(this.length, this.#bytes.length - this.#start);
    return Buffer.concat([
      this.#bytes.subarray(this.#start, this.#start + untilWrap),
      this.#bytes.subarray(0, this.length - untilWrap),
    ]);
  }

  /** Grows up to the capacity, then overwrites the oldest bytes. */
  #evictFor(incoming: number): void {
    if (this.length + incoming > this.#bytes.length && this.#bytes.length < this.#capacity) {
      const content = this.bytes();
      this.#bytes = grown(content, this.length + incoming, this.#capacity);
      this.#start = 0;
    }
    const excess = this.length + incoming - this.#bytes.length;
    if (excess <= 0) return;
    this.#start = (this.#start + excess) % this.#bytes.length;
    this.length -= excess;
  }
}

/** Returns a larger copy for `needed` bytes. It at least doubles, so that growth is amortized, up to the capacity. */
function grown(bytes: Uint8Array, needed: number, capacity: number): Uint8Array {
  if (needed <= bytes.length) return bytes;
  const larger = new Uint8Array(Math.min(capacity, Math.max(needed, bytes.length * 2, FIRST_CAPACITY)));
  larger.set(bytes);
  return larger;
}
