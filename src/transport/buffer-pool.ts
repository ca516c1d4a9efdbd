import {
  BUFFER_POOL_BYTES,
  BUFFER_POOL_IDLE_MS,
  BUFFER_POOL_UNIT_BYTES,
  LARGE_MESSAGE_BYTES,
} from './limits.ts';

/**
 * A short-lived pool of buffers for large messages. Allocating and zeroing a fresh megabyte takes as long as
 * filling it, and each dropped one is work for the garbage collector.
 */
export class BufferPool {
  #blocks: Buffer[] = [];
  #bytes = 0;
  #timer: NodeJS.Timeout | null = null;

  /** Returns a buffer of `bytes` or somewhat more, with arbitrary content. Small ones are not pooled. */
  take(bytes: number): Buffer {
    // A small message that arrives in pieces must not occupy a whole unit.
    if (bytes < LARGE_MESSAGE_BYTES) return Buffer.allocUnsafeSlow(bytes);
    const wanted = Math.ceil(bytes / BUFFER_POOL_UNIT_BYTES) * BUFFER_POOL_UNIT_BYTES;
    const index = this.#blocks.findIndex(({ length }) => length >= wanted && length <= 2 * wanted);
    if (index < 0) return Buffer.allocUnsafeSlow(wanted);
    const [block] = this.#blocks.splice(index, 1);
    this.#bytes -= block!.length;
    return block!;
  }

  /** Returns a buffer that is no longer used to the pool. Drops it when it is too small or the pool is full. */
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

/** The pool of this process. */
export const BUFFER_POOL = new BufferPool();

/** A pool of buffers of one size. The garbage collector handles large buffers that live for a millisecond badly. */
export class FixedBufferPool {
  readonly #bytes: number;
  readonly #maxIdle: number;
  readonly #idle: Buffer[] = [];

  constructor(bytes: number, maxIdle: number) {
    this.#bytes = bytes;
    this.#maxIdle = maxIdle;
  }

  /** Returns a buffer of at least `length` bytes. One that exceeds the pool's size is not pooled. */
  take(length: number): Buffer {
    if (length > this.#bytes) return Buffer.allocUnsafeSlow(length);
    return this.#idle.pop() ?? Buffer.allocUnsafeSlow(this.#bytes);
  }

  /** Returns a buffer, or any view of it, that is no longer used to the pool. */
  give(view: Buffer): void {
    if (view.buffer.byteLength !== this.#bytes || this.#idle.length === this.#maxIdle) return;
    this.#idle.push(Buffer.from(view.buffer));
  }
}
