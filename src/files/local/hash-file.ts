import { createHash } from 'node:crypto';
import type { FileHash, LinkOption } from '../file-system.ts';
import { HASH_TURN_BYTES } from '../limits.ts';
import type { NativePath } from '../native-path.ts';
import { closeDescriptor } from './descriptor.ts';
import { openRegularForReading, openRegularNoFollow } from './open-regular.ts';
import { readOnce } from './positional-io.ts';

/** Hashes the content of one file, piece by piece. The caller calls `digest` or `drop` at the end. */
export interface ContentHasher {
  /** How many bytes a piece may have. */
  readonly pieceBytes: number;
  /** Takes the first `length` bytes of the buffer. Resolves with a buffer of the same size for another piece. */
  update(piece: Buffer<ArrayBuffer>, length: number): Promise<Buffer<ArrayBuffer>> | Buffer<ArrayBuffer>;
  /** The SHA-256 in hexadecimal digits. */
  digest(): Promise<string> | string;
  /** Ends an unfinished hash. */
  drop(): void;
}

export interface HasherSource {
  /** Begins a hash. Null where that is not possible. */
  begin(): ContentHasher | null;
}

/**
 * The SHA-256 of a regular file, which is read in pieces. A large file is hashed by `thread`. Where there is none, the event loop
 * hashes it and gives other requests a turn after each piece.
 */
export async function hashFile(
  path: NativePath,
  { followSymlinks }: LinkOption,
  signal: AbortSignal,
  thread: HasherSource | null = null,
): Promise<FileHash> {
  const { fd, size } = await (followSymlinks ? openRegularForReading : openRegularNoFollow)(path);
  try {
    const hasher = size > HASH_TURN_BYTES ? thread?.begin() : null;
    return await hashDescriptor(fd, size, hasher ?? inlineHasher(), signal);
  } finally {
    // The bytes are read; an error on close does not matter.
    await closeDescriptor(fd).catch(() => {});
  }
}

/** Reads the next piece while the previous one is hashed. */
async function hashDescriptor(
  fd: number,
  size: number,
  hasher: ContentHasher,
  signal: AbortSignal,
): Promise<FileHash> {
  // One byte more than the size shows the end of the file without another read.
  const pieceBytes = size === 0 ? hasher.pieceBytes : Math.min(size + 1, hasher.pieceBytes);
  const newPiece = () => Buffer.from(new ArrayBuffer(pieceBytes));
  let hashing: ReturnType<ContentHasher['update']> | null = null;
  let piece = newPiece();
  let position = 0;
  try {
    for (;;) {
      const length = await readOnce(fd, piece, 0, position);
      signal.throwIfAborted();
      const free = await hashing;
      if (length === 0) return { sha256: await hasher.digest(), size: position };
      position += length;
      hashing = hasher.update(piece, length);
      if (length < pieceBytes && position >= size && size > 0) {
        await hashing;
        return { sha256: await hasher.digest(), size: position };
      }
      piece = free ?? (hashing === piece ? piece : newPiece());
    }
  } catch (error) {
    void Promise.resolve(hashing).catch(() => {});
    hasher.drop();
    throw error;
  }
}

/** Hashes on the event loop. */
export function inlineHasher(): ContentHasher {
  const hash = createHash('sha256');
  return {
    pieceBytes: HASH_TURN_BYTES,
    update: (piece, length) => {
      hash.update(piece.subarray(0, length));
      return piece;
    },
    digest: () => hash.digest('hex'),
    drop: () => {},
  };
}
