import { closeSync } from 'node:fs';
import { refused, toFileError } from '../errors.ts';
import type { FileContent, LinkOption } from '../file-system.ts';
import { INLINE_CLOSE_MAX_BYTES, READ_FILE_HEAD_BYTES, READ_FILE_MAX_BYTES } from '../limits.ts';
import type { NativePath } from '../native-path.ts';
import { closeDescriptor } from './descriptor.ts';
import { openRegularForReading, openRegularNoFollow } from './open-regular.ts';
import { type CachedRead, readOnce } from './positional-io.ts';

/** Opens a regular file to read all of it. A file above the limit is rejected before anything is read. */
export async function readFile(path: NativePath, options: LinkOption): Promise<FileContent> {
  const head = Buffer.allocUnsafe(READ_FILE_HEAD_BYTES);
  const open = options.followSymlinks ? openRegularForReading : openRegularNoFollow;
  const { fd, size, headBytes } = await open(path, head);
  return await contentOf(fd, size, headBytes === null ? null : head.subarray(0, headBytes));
}

/**
 * The content of an open file. `head` holds its first bytes; null if it cannot be read at a position. The content owns the
 * descriptor.
 */
export async function contentOf(
  fd: number,
  size: number,
  head: Buffer | null,
  readCached?: CachedRead,
): Promise<FileContent> {
  if (size > READ_FILE_MAX_BYTES) {
    await closeDescriptor(fd);
    throw tooLarge();
  }
  return new OpenContent(fd, size, head, readCached);
}

/** Content in memory. */
export class ReadContent implements FileContent {
  readonly whole: Buffer;
  #rest: Buffer;

  constructor(bytes: Buffer) {
    this.whole = bytes;
    this.#rest = bytes;
  }

  get size(): number {
    return this.whole.length;
  }

  async read(buffer: Buffer): Promise<number> {
    const count = this.#rest.copy(buffer);
    this.#rest = this.#rest.subarray(count);
    return count;
  }

  async close(): Promise<void> {}
}

class OpenContent implements FileContent {
  readonly size: number;
  readonly #fd: number;
  readonly #readCached: CachedRead | undefined;
  /** Bytes read while the file was opened and not returned yet; null when reading at a position is not possible. */
  #head: Buffer | null;
  /** The read in progress; it never rejects. */
  #reading: Promise<unknown> = Promise.resolve();
  #bytesRead = 0;

  constructor(fd: number, size: number, head: Buffer | null, readCached: CachedRead | undefined) {
    this.#fd = fd;
    this.#readCached = readCached;
    this.size = size;
    this.#head = head;
  }

  /** Fails beyond the limit: a file may grow, and the size of a file that the kernel generates means nothing. */
  read(buffer: Buffer): Promise<number> {
    const reading = this.#fill(buffer);
    this.#reading = reading.catch(() => {});
    return reading;
  }

  async close(): Promise<void> {
    await this.#reading;
    try {
      if (this.#readCached !== undefined && this.size <= INLINE_CLOSE_MAX_BYTES) closeSync(this.#fd);
      else await closeDescriptor(this.#fd);
    } catch (error) {
      throw toFileError(error);
    }
  }

  async #fill(buffer: Buffer): Promise<number> {
    let filled = 0;
    while (filled < buffer.length) {
      const wanted = buffer.length - filled;
      const bytesRead = await this.#readSome(buffer, filled);
      if (bytesRead === 0) break;
      filled += bytesRead;
      this.#bytesRead += bytesRead;
      if (this.#bytesRead > READ_FILE_MAX_BYTES) throw tooLarge();
      // Everything up to the size at open is read and nothing follows, so that no further read is needed to detect the end.
      if (bytesRead < wanted && this.#bytesRead >= this.size && this.size > 0) break;
    }
    return filled;
  }

  #readSome(buffer: Buffer, start: number): Promise<number> | number {
    const head = this.#head;
    if (head === null) return readOnce(this.#fd, buffer, start, null);
    if (head.length === 0) {
      const count = this.#readCached?.(this.#fd, buffer, start, this.#bytesRead);
      return count ?? readOnce(this.#fd, buffer, start, this.#bytesRead);
    }
    const count = head.copy(buffer, start);
    this.#head = head.subarray(count);
    return count;
  }
}

function tooLarge(): Error {
  return refused(`file is too large to read: limit is ${READ_FILE_MAX_BYTES} bytes`);
}
