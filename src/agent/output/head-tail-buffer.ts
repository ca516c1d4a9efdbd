/**
 * The first and the last bytes of a stream: half of the capacity for each, and a count of what is missing between them. Bytes are
 * copied, and memory is taken as they come.
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

  /** Everything that was ever pushed. */
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
   * Adds what another buffer has seen: the same as pushing all of it here, the omitted bytes included. The other must have at least
   * this capacity, or it lacks bytes that this one would have kept.
   */
  append(other: HeadTailBuffer): void {
    if (other.capacity < this.capacity) throw new RangeError('a smaller buffer cannot be appended');
    this.push(other.head);
    // Where bytes are missing, both halves of the other are full: its head fills this one, its tail replaces this one.
    this.#totalBytes += other.omittedBytes;
    this.push(other.tail);
  }

  /** Hands over the content and leaves nothing. */
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

  /** The content as one text; a line in the place of omitted bytes says how many they are. */
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
    this.#makeRoom(kept.length);
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

  /** Grows up to the capacity, then gives up the oldest bytes. */
  #makeRoom(incoming: number): void {
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

/** The same bytes with room for `needed`: at least doubled, so that growing stays cheap, and never above the capacity. */
function grown(bytes: Uint8Array, needed: number, capacity: number): Uint8Array {
  if (needed <= bytes.length) return bytes;
  const larger = new Uint8Array(Math.min(capacity, Math.max(needed, bytes.length * 2, FIRST_CAPACITY)));
  larger.set(bytes);
  return larger;
}
