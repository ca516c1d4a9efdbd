import { constants } from 'node:fs';
import { refused, toFileError } from '../errors.ts';
import { type NativePath, systemPath, textOfNativePath } from '../native-path.ts';
import { closeDescriptor, openDescriptor, statDescriptor } from './descriptor.ts';
import { withParentOpen } from './no-follow.ts';
import { readOnce } from './positional-io.ts';

/** An open regular file and the size it had then. The caller closes the descriptor. */
export interface OpenRegular {
  readonly fd: number;
  readonly size: number;
  /** How many of its first bytes are in the buffer that was given for them; null when that could not be told. */
  readonly headBytes: number | null;
}

/**
 * Opens a regular file for reading; links are followed, anything else is refused. What the path leads to is decided on the open
 * file, so that it cannot change in between, and opening never waits for a writer of a FIFO or takes over a terminal. The beginning
 * of the file is read into `head`, if given, at no extra time.
 */
export async function openRegularForReading(path: NativePath, head?: Buffer): Promise<OpenRegular> {
  return await openRegular(path, 0, notAFile(path), head);
}

/** Like {@link openRegularForReading}, but a link anywhere in the path is an error. */
export async function openRegularNoFollow(path: NativePath, head?: Buffer): Promise<OpenRegular> {
  return await withParentOpen(path, (entry) => openRegular(entry, constants.O_NOFOLLOW, NOT_REGULAR, head));
}

/** The refusal of a path that is not followed and leads to something other than a regular file. */
export const NOT_REGULAR = 'path is not a regular file';

/** The refusal of a path that leads to something other than a regular file. */
export function notAFile(path: NativePath): string {
  return `path \`${textOfNativePath(path)}\` is not a file`;
}

/** How files are opened for reading. */
export const READ_WITHOUT_WAITING = constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY;

async function openRegular(
  path: NativePath,
  flags: number,
  notRegular: string,
  head: Buffer | undefined,
): Promise<OpenRegular> {
  try {
    const fd = await openDescriptor(systemPath(path), READ_WITHOUT_WAITING | flags);
    // Reading at a position takes nothing away from a FIFO or a terminal: there it fails.
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
