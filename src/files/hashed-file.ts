import { Semaphore } from '../base/semaphore.ts';
import type { OpenFile, ReplacementPart } from './file-system.ts';
import { HASH_PIECES, type HashPieces } from './hash-pieces.ts';
import { HASHED_PIECES } from './limits.ts';
import type { ContentHasher } from './local/hash-file.ts';

/**
 * A new file whose blocks are hashed while they are written. The blocks must come in order from the start of the file. Each one is copied
 * in pieces for the hasher, so that the next block can be written while the last pieces are hashed.
 */
export class HashedFile implements OpenFile {
  readonly #file: OpenFile;
  readonly #hasher: ContentHasher;
  readonly #pieces: HashPieces;
  readonly #slots = new Semaphore(HASHED_PIECES);
  /** Resolves when all pieces so far are hashed and given back. Never rejects. */
  #hashed: Promise<void> = Promise.resolve();
  /** The error of the hasher. The pieces after it are not hashed. */
  #failure: { readonly error: unknown } | null = null;
  /** The end of the blocks so far; null after one that does not continue them. */
  #end: number | null;
  #isOver = false;

  constructor(file: OpenFile, hasher: ContentHasher, pieces: HashPieces = HASH_PIECES) {
    this.#file = file;
    this.#hasher = hasher;
    this.#pieces = pieces;
    // What an earlier replacement has left is not hashed.
    this.#end = (file.part?.size ?? 0) === 0 ? 0 : null;
  }

  get part(): ReplacementPart | undefined {
    return this.#file.part;
  }

  read(position: number, length: number, into?: Buffer): Promise<Buffer> {
    return this.#file.read(position, length, into);
  }

  async write(position: number, bytes: Uint8Array): Promise<void> {
    const hashing = this.#add(position, bytes);
    try {
      await this.#file.write(position, bytes);
    } catch (error) {
      this.#end = null;
      throw error;
    } finally {
      // The caller may reuse the bytes.
      await hashing;
    }
  }

  async digest(): Promise<string | null> {
    await this.#hashed;
    if (this.#end === null) return null;
    if (this.#failure !== null) throw this.#failure.error;
    this.#isOver = true;
    return await this.#hasher.digest();
  }

  async close(): Promise<void> {
    this.#drop();
    await this.#file.close();
  }

  async discard(): Promise<void> {
    this.#drop();
    await this.#file.discard();
  }

  /** Resolves when the bytes are copied. An error of the hasher is that of the digest. */
  async #add(position: number, bytes: Uint8Array): Promise<void> {
    if (position !== this.#end) {
      this.#end = null;
      return;
    }
    this.#end += bytes.length;
    const { pieceBytes } = this.#hasher;
    for (let from = 0; from < bytes.length && this.#failure === null; from += pieceBytes) {
      await this.#slots.acquire();
      const piece = await this.#pieces.take(pieceBytes);
      const part = bytes.subarray(from, from + pieceBytes);
      piece.set(part);
      this.#hashed = this.#hashed.then(() => this.#hash(piece, part.length));
    }
  }

  /** Gives the piece back in any case: other files wait for it. */
  async #hash(piece: Buffer<ArrayBuffer>, length: number): Promise<void> {
    let free: Buffer<ArrayBuffer> | null = piece;
    if (this.#failure === null && !this.#isOver) {
      try {
        free = await this.#hasher.update(piece, length);
      } catch (error) {
        this.#failure = { error };
        free = null;
      }
    }
    this.#pieces.giveBack(free);
    this.#slots.release();
  }

  /** The hasher does not answer after `drop`, so the piece that it has comes back first. */
  #drop(): void {
    if (this.#isOver) return;
    this.#isOver = true;
    void this.#hashed.then(() => this.#hasher.drop());
  }
}
