import { constants } from 'node:fs';
import { refused, toFileError } from '../errors.ts';
import { type NativePath, systemPath, textOfNativePath } from '../native-path.ts';
import { closeDescriptor, openDescriptor, statDescriptor } from './descriptor.ts';
import { withParentOpen } from './no-follow.ts';
import { readOnce } from './positional-io.ts';

/** An open regular file and its size at that time. The caller closes the descriptor. */
interface OpenRegular {
  readonly fd: number;
  readonly size: number;
  /** How many bytes of the beginning were read into the buffer; null when the file cannot be read at a position. */
  readonly headBytes: number | null;
}

/**
 * Opens a regular file for reading and rejects any other type. Follows links. The type is checked on the open descriptor, so that
 * it cannot change in between. Opening never waits for the writer of a FIFO and never acquires a controlling terminal. If `head` is
 * given, the beginning of the file is read into it while the type is checked.
 */
export async function openRegularForReading(path: NativePath, head?: Buffer): Promise<OpenRegular> {
  return await openRegular(path, 0, notAFile(path), head);
}

/** Like {@link openRegularForReading}, but a link anywhere in the path is an error. */
export async function openRegularNoFollow(path: NativePath, head?: Buffer): Promise<OpenRegular> {
  return await withParentOpen(path, (entry) => openRegular(entry, constants.O_NOFOLLOW, NOT_REGULAR, head));
}

/** The error for a path that is not a regular file where links are not followed. */
export const NOT_REGULAR = 'path is not a regular file';

/** The error for a path that is not a regular file. */
export function notAFile(path: NativePath): string {
  return `path \`${textOfNativePath(path)}\` is not a file`;
}

/** Flags for opening files for reading. */
export const READ_WITHOUT_WAITING = constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY;

async function openRegular(
  path: NativePath,
  flags: number,
  notRegular: string,
  head: Buffer | undefined,
): Promise<OpenRegular> {
  try {
    const fd = await openDescriptor(systemPath(path), READ_WITHOUT_WAITING | flags);
    // A read at a position consumes nothing from a FIFO or a terminal: it fails there.
    const reading = head && readOnce(fd, head, 0, 0).catch(() => null);
    try {
      const stats = await statDescriptor(fd).finally(() => reading);
      if (!stats.isFile()) throw refused(notRegular);
      return { fd, size: stats.size, headBytes: (await reading) ?? null };
    } catch (error) {
      await closeDescriptor(fd);
      throw error;
    }
  } catch (error) {
    throw toFileError(error);
  }
}
