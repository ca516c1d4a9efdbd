import { SPARE_MEMORY_BYTES, SPARE_MEMORY_MS, SPARE_MEMORY_UNIT_BYTES } from './limits.ts';

/**
 * Memory of large messages that is used again, for a moment: to get and clear a fresh megabyte takes as long as to fill it, and each one
 * that is dropped is work for the garbage collector.
 */
export class SpareMemory {
  #blocks: Buffer[] = [];
  #bytes = 0;
  #timer: NodeJS.Timeout | null = null;

  /** A block of `bytes` or somewhat more, which holds anything. */
  take(bytes: number): Buffer {
    const wanted = Math.ceil(bytes / SPARE_MEMORY_UNIT_BYTES) * SPARE_MEMORY_UNIT_BYTES;
    const index = this.#blocks.findIndex(({ length }) => length >= wanted && length <= 2 * wanted);
    if (index < 0) return Buffer.allocUnsafeSlow(wanted);
    const [block] = this.#blocks.splice(index, 1);
    this.#bytes -= block!.length;
    return block!;
  }

  /** Takes a block back that nobody reads or writes any more; one that is too small to be of use is dropped. */
  give(block: Buffer): void {
    if (block.length < SPARE_MEMORY_UNIT_BYTES || this.#bytes + block.length > SPARE_MEMORY_BYTES) return;
    this.#blocks.push(block);
    this.#bytes += block.length;
    this.#timer ??= setTimeout(() => this.#drop(), SPARE_MEMORY_MS).unref();
  }

  #drop(): void {
    this.#timer = null;
    this.#blocks = [];
    this.#bytes = 0;
  }
}

/** The memory of this process. */
export const SPARE_MEMORY = new SpareMemory();
