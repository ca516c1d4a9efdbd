import { isUtf8 } from 'node:buffer';
import { BUFFER_POOL } from './buffer-pool.ts';
import { PREALLOCATED_MESSAGE_MAX_BYTES } from './limits.ts';
import type { LargeMessage } from './transport.ts';

/** A growing byte buffer. It allocates the expected size only after a good part of it has arrived. */
export class GrowableBuffer {
  readonly #expectedBytes: number;
  #memory: Buffer = NOTHING;
  #length = 0;

  constructor(expectedBytes: number) {
    this.#expectedBytes = expectedBytes;
  }

  get length(): number {
    return this.#length;
  }

  /** The bytes so far, in memory that later bytes may extend. */
  get bytes(): Buffer {
    return this.#memory.subarray(0, this.#length);
  }

  add(piece: Uint8Array): void {
    this.reserve(piece.length).set(piece);
    this.grow(piece.length);
  }

  /**
   * Returns space for at least `count` more bytes. Call {@link grow} with the number of bytes that were written.
   */
  reserve(count: number): Buffer {
    const wanted = this.#length + count;
    if (wanted > this.#memory.length) {
      const isLarge = wanted > PREALLOCATED_MESSAGE_MAX_BYTES;
      const expected = isLarge
        ? this.#expectedBytes
        : Math.min(this.#expectedBytes, PREALLOCATED_MESSAGE_MAX_BYTES);
      const larger = BUFFER_POOL.take(wanted <= expected ? expected : 2 * wanted);
      this.#memory.copy(larger, 0, 0, this.#length);
      BUFFER_POOL.give(this.#memory);
      this.#memory = larger;
    }
    return this.#memory.subarray(this.#length);
  }

  grow(count: number): void {
    this.#length += count;
  }

  /**
   * Moves the bytes when they fill less than a quarter of their memory, because their owner would keep all of it.
   */
  fit(): void {
    if (4 * this.#length >= this.#memory.length) return;
    const fitting = Buffer.allocUnsafeSlow(this.#length);
    this.#memory.copy(fitting);
    BUFFER_POOL.give(this.#memory);
    this.#memory = fitting;
  }

  /** Returns the bytes in memory of their own size, for an owner that keeps them. The buffer is empty afterwards. */
  take(): Buffer {
    const { bytes } = this;
    const isExact = this.#memory.length === this.#length;
    const taken = isExact ? bytes : Buffer.from(bytes);
    if (isExact) this.#memory = NOTHING;
    this.release();
    return taken;
  }

  /** Returns the memory to the pool. The bytes must not be used any more. */
  release(): void {
    BUFFER_POOL.give(this.#memory);
    this.#memory = NOTHING;
    this.#length = 0;
  }

  /** Keeps the first `length` bytes. */
  cut(length: number): void {
    this.#length = length;
  }
}

/** Collects a large message for a receiver that wants it in one piece. */
export class BufferedMessage implements LargeMessage {
  readonly #bytes: GrowableBuffer;
  readonly #ended: (bytes: Buffer) => void;

  constructor(expectedBytes: number, ended: (bytes: Buffer) => void) {
    this.#bytes = new GrowableBuffer(expectedBytes);
    this.#ended = ended;
  }

  add(piece: Uint8Array): void {
    this.#bytes.add(piece);
  }

  isUtf8(): boolean {
    return isUtf8(this.#bytes.bytes);
  }

  end(): void {
    this.#ended(this.#bytes.bytes);
  }
}

const NOTHING = Buffer.alloc(0);
