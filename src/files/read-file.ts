import type { FileHandle } from 'node:fs/promises';
import { refused, toFileError } from './errors.ts';
import type { FileContent, LinkOption } from './file-system.ts';
import { READ_FILE_MAX_BYTES } from './limits.ts';
import type { NativePath } from './native-path.ts';
import { openRegularForReading, openRegularNoFollow } from './open-regular.ts';

/** Opens a regular file to be read as a whole. A file above the limit is refused before anything of it is read. */
export async function readFile(path: NativePath, options: LinkOption): Promise<FileContent> {
  const { handle, size } = await (options.followSymlinks ? openRegularForReading : openRegularNoFollow)(path);
  if (size > READ_FILE_MAX_BYTES) {
    await handle.close();
    throw tooLarge();
  }
  return new OpenContent(handle, size);
}

class OpenContent implements FileContent {
  readonly size: number;
  readonly #handle: FileHandle;
  #bytesRead = 0;

  constructor(handle: FileHandle, size: number) {
    this.#handle = handle;
    this.size = size;
  }

  /** Refuses to go on behind the limit: a file may grow, and the size of one that the kernel makes up says nothing. */
  async read(buffer: Buffer): Promise<number> {
    let filled = 0;
    while (filled < buffer.length) {
      const wanted = buffer.length - filled;
      const bytesRead = await this.#readSome(buffer.subarray(filled));
      if (bytesRead === 0) break;
      filled += bytesRead;
      this.#bytesRead += bytesRead;
      if (this.#bytesRead > READ_FILE_MAX_BYTES) throw tooLarge();
      // All that was there when the file was opened, and nothing behind it: no need to ask again for the end.
      if (bytesRead < wanted && this.#bytesRead >= this.size && this.size > 0) break;
    }
    return filled;
  }

  async close(): Promise<void> {
    try {
      await this.#handle.close();
    } catch (error) {
      throw toFileError(error);
    }
  }

  async #readSome(buffer: Buffer): Promise<number> {
    try {
      return (await this.#handle.read(buffer, 0, buffer.length, null)).bytesRead;
    } catch (error) {
      throw toFileError(error);
    }
  }
}

function tooLarge(): Error {
  return refused(`file is too large to read: limit is ${READ_FILE_MAX_BYTES} bytes`);
}
