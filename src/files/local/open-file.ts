import { constants } from 'node:fs';
import { refused, toFileError } from '../errors.ts';
import type { OpenFile, OpenMode, OpenOptions } from '../file-system.ts';
import { type NativePath, systemPath, textOfNativePath } from '../native-path.ts';
import { openAtomicReplacement } from './atomic-replace.ts';
import { closeDescriptor, openDescriptor, statDescriptor } from './descriptor.ts';
import { withParentOpen } from './no-follow.ts';
import { openRegularForReading, openRegularNoFollow } from './open-regular.ts';
import { type CachedRead, readAt, writeAt } from './positional-io.ts';

/** Opens a regular file. Never blocks, not even on a FIFO. */
export async function openFile(
  path: NativePath,
  mode: OpenMode,
  options: OpenOptions = { followSymlinks: true },
): Promise<OpenFile> {
  const { followSymlinks } = options;
  switch (mode) {
    case 'read':
      return new FileInPlace((await (followSymlinks ? openRegularForReading : openRegularNoFollow)(path)).fd);
    case 'replace':
      if (followSymlinks) return new FileInPlace(await openForReplacing(path, 0));
      return new FileInPlace(
        await withParentOpen(path, (entry) => openForReplacing(entry, constants.O_NOFOLLOW)),
      );
    case 'atomicReplace':
      if (!followSymlinks) throw refused('an atomic replacement always follows symbolic links');
      return await openAtomicReplacement(path, options);
  }
}

/** A file that is read or written in place. What the mode does not allow fails with EBADF. */
export class FileInPlace implements OpenFile {
  readonly #fd: number;
  readonly #readCached: CachedRead | undefined;

  constructor(fd: number, readCached?: CachedRead) {
    this.#fd = fd;
    this.#readCached = readCached;
  }

  read(position: number, length: number, into?: Buffer): Promise<Buffer> {
    return readAt(this.#fd, position, length, into, this.#readCached);
  }

  write(position: number, bytes: Uint8Array): Promise<void> {
    return writeAt(this.#fd, position, bytes);
  }

  async close(): Promise<void> {
    try {
      await closeDescriptor(this.#fd);
    } catch (error) {
      throw toFileError(error);
    }
  }

  async discard(): Promise<void> {
    await this.close();
  }
}

/** Creates the file or truncates it immediately. The inode, its mode and its hard links stay. */
async function openForReplacing(path: NativePath, flags: number): Promise<number> {
  try {
    const fd = await openDescriptor(systemPath(path), REPLACE_WITHOUT_WAITING | flags, 0o666);
    try {
      if ((await statDescriptor(fd)).isFile()) return fd;
      throw refused(`path \`${textOfNativePath(path)}\` is not a file`);
    } catch (error) {
      await closeDescriptor(fd);
      throw error;
    }
  } catch (error) {
    throw toFileError(error);
  }
}

const REPLACE_WITHOUT_WAITING =
  constants.O_WRONLY | constants.O_CREAT | constants.O_TRUNC | constants.O_NONBLOCK | constants.O_NOCTTY;
