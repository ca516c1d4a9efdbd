/**
 * Buffers of one size that are used again once their bytes are sent. Large buffers that live for a millisecond are what the
 * garbage collector is worst at.
 */
export class FrameBuffers {
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
