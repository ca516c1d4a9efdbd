import { BUFFER_POOL_BYTES, BUFFER_POOL_IDLE_MS, BUFFER_POOL_UNIT_BYTES } from './limits.ts';

/**
 * Memory of large messages that is used again, for a moment: to get and clear a fresh megabyte takes as long as to fill it, and each one
 * that is dropped is work for the garbage collector.
 */
export class BufferPool {
  #blocks: Buffer[] = [];
  #bytes = 0;
  #timer: NodeJS.Timeout | null = null;

  /** A block of `bytes` or somewhat more, which holds anything. */
  take(bytes: number): Buffer {
    const wanted = Math.ceil(bytes / BUFFER_POOL_UNIT_BYTES) * BUFFER_POOL_UNIT_BYTES;
    const index = this.#blocks.findIndex(({ length }) => length >= wanted && length <= 2 * wanted);
    if (index < 0) return Buffer.allocUnsafeSlow(wanted);
    const [block] = this.#blocks.splice(index, 1);
    this.#bytes -= block!.length;
    return block!;
  }

  /** Takes a block back that nobody reads or writes any more; one that is too small to be of use is dropped. */
  give(block: Buffer): void {
    if (block.length < BUFFER_POOL_UNIT_BYTES || this.#bytes + block.length > BUFFER_POOL_BYTES) return;
    this.#blocks.push(block);
    this.#bytes += block.length;
    this.#timer ??= setTimeout(() => this.#drop(), BUFFER_POOL_IDLE_MS).unref();
  }

  #drop(): void {
    this.#timer = null;
    this.#blocks = [];
    this.#bytes = 0;
  }
}

/** The memory of this process. */
export const BUFFER_POOL = new BufferPool();

/**
 * Buffers of one size that are used again once their bytes are sent. Large buffers that live for a millisecond are what the
 * garbage collector is worst at.
 */
export class FixedBufferPool {
  readonly #bytes: number;
  readonly #maxIdle: number;
  readonly #idle: Buffer[] = [];

  constructor(bytes: number, maxIdle: number) {
    this.#bytes = bytes;
    this.#maxIdle = maxIdle;
  }

  /** A buffer of at least `length` bytes; one that is larger than the others is not kept. */
  take(length: number): Buffer {
    if (length > this.#bytes) return Buffer.allocUnsafeSlow(length);
    return this.#idle.pop() ?? Buffer.allocUnsafeSlow(this.#bytes);
  }

  /** Returns a buffer, or any view of it, that nobody reads any more. */
  give(view: Buffer): void {
    if (view.buffer.byteLength !== this.#bytes || this.#idle.length === this.#maxIdle) return;
    this.#idle.push(Buffer.from(view.buffer));
  }
}
