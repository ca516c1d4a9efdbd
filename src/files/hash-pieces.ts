import { Semaphore } from '../base/semaphore.ts';
import { HASH_PIECE_BYTES, MAX_FREE_HASH_PIECES, MAX_HASH_PIECES } from './limits.ts';

/**
 * The memory for pieces of files that are hashed while they arrive, for all connections. Their number is limited. A caller that finds
 * none waits for the hasher, never for a client. Free pieces are few, so idle handles keep nothing.
 */
export class HashPieces {
  readonly #slots: Semaphore;
  readonly #free: Buffer<ArrayBuffer>[] = [];
  #taken = 0;

  constructor(maxPieces = MAX_HASH_PIECES) {
    this.#slots = new Semaphore(maxPieces);
  }

  /** The number of pieces that callers have, and of those that wait for the next caller. */
  get counts(): { readonly taken: number; readonly free: number } {
    return { taken: this.#taken, free: this.#free.length };
  }

  /** Resolves with a piece. The caller gives it back. */
  async take(bytes: number): Promise<Buffer<ArrayBuffer>> {
    await this.#slots.acquire();
    this.#taken++;
    const free = bytes === HASH_PIECE_BYTES ? this.#free.pop() : undefined;
    return free ?? Buffer.from(new ArrayBuffer(bytes));
  }

  /** Null gives back a piece whose memory is lost, because a thread that failed had it. */
  giveBack(piece: Buffer<ArrayBuffer> | null): void {
    this.#taken--;
    if (piece?.length === HASH_PIECE_BYTES && this.#free.length < MAX_FREE_HASH_PIECES)
      this.#free.push(piece);
    this.#slots.release();
  }
}

/** The pieces of this process. */
export const HASH_PIECES = new HashPieces();
