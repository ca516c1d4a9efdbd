import { constants, type Stats } from 'node:fs';
import { stat } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { Backoff } from '../../base/backoff.ts';
import { errorCode, FileError, refused, toFileError } from '../errors.ts';
import type { LinkOption, Waiting } from '../file-system.ts';
import { WRITE_RETRY_FIRST_MS, WRITE_RETRY_LONGEST_MS } from '../limits.ts';
import { type NativePath, systemPath } from '../native-path.ts';
import { closeDescriptor, openDescriptor, statDescriptor, truncateDescriptor } from './descriptor.ts';
import { withParentOpen } from './no-follow.ts';
import { NOT_REGULAR } from './open-regular.ts';
import { writeOnce } from './positional-io.ts';

/**
 * Writes `bytes` as the content of a file, in place: the inode, its hard links and its mode stay, and a new file gets the default
 * mode. The old content is overwritten and its rest truncated at the end, so that no reader sees an empty file in between. Where
 * links are followed, FIFOs and devices are also written; a FIFO without a reader is waited for.
 */
export async function writeFile(
  path: NativePath,
  bytes: Uint8Array,
  options: LinkOption,
  waiting: Waiting,
): Promise<void> {
  const retry = new WriteRetry(waiting);
  try {
    const fd = options.followSymlinks
      ? await openAnything(path, retry)
      : await withParentOpen(path, (entry) => openRegularForWriting(entry, retry));
    await fillAndClose(fd, bytes, retry);
  } catch (error) {
    throw toFileError(error);
  }
}

/** Writes to an open descriptor, like {@link writeFile}, and closes it. */
export async function writeOpened(fd: number, bytes: Uint8Array, waiting: Waiting): Promise<void> {
  try {
    await fillAndClose(fd, bytes, new WriteRetry(waiting));
  } catch (error) {
    throw toFileError(error);
  }
}

/** Flags for opening files for writing. */
export const WRITE_WITHOUT_WAITING =
  constants.O_WRONLY | constants.O_CREAT | constants.O_NONBLOCK | constants.O_NOCTTY;

async function openAnything(path: NativePath, retry: WriteRetry): Promise<number> {
  for (;;) {
    try {
      return await openLeased(path, 0, retry);
    } catch (error) {
      if (errorCode(error) !== 'ENXIO' || !(await stat(systemPath(path))).isFIFO()) throw error;
    }
    await retry.pause();
  }
}

async function openRegularForWriting(entry: NativePath, retry: WriteRetry): Promise<number> {
  const fd = await openLeased(entry, constants.O_NOFOLLOW, retry);
  try {
    if (!(await statDescriptor(fd)).isFile()) throw refused(NOT_REGULAR);
    return fd;
  } catch (error) {
    await closeDescriptor(fd);
    throw error;
  }
}

/** Opens for writing. If another process holds a lease on the file (fcntl(2)), waits until it is released. */
async function openLeased(path: NativePath, flags: number, retry: WriteRetry): Promise<number> {
  for (;;) {
    try {
      return await openDescriptor(systemPath(path), WRITE_WITHOUT_WAITING | flags, 0o666);
    } catch (error) {
      if (errorCode(error) !== 'EAGAIN') throw error;
    }
    await retry.pause();
  }
}

async function fillAndClose(fd: number, bytes: Uint8Array, retry: WriteRetry): Promise<void> {
  try {
    await fill(fd, bytes, retry);
  } finally {
    await closeDescriptor(fd);
  }
}

/** Writes everything. If a write fails, truncates the file there, so that it does not end with old content. */
async function fill(fd: number, bytes: Uint8Array, retry: WriteRetry): Promise<void> {
  let written = 0;
  // Runs during the write: the size is the old one, or the number of bytes written, whichever is larger.
  const stats = statDescriptor(fd).catch((error: Error) => error);
  try {
    while (written < bytes.length) {
      written += await writeSome(fd, bytes, written, retry);
    }
  } finally {
    await cutRest(fd, await stats, written, bytes.length);
  }
}

async function writeSome(fd: number, bytes: Uint8Array, start: number, retry: WriteRetry): Promise<number> {
  for (;;) {
    try {
      const count = await writeOnce(fd, bytes, start, null);
      retry.reset();
      return count;
    } catch (error) {
      if (errorCode(error) !== 'EAGAIN') throw error;
    }
    await retry.pause();
  }
}

async function cutRest(fd: number, stats: Stats | Error, written: number, wanted: number): Promise<void> {
  if (stats instanceof Error) throw stats;
  if (hasRest(stats, written, wanted)) await truncateDescriptor(fd, written);
}

/**
 * Whether the rest of the old content has to be truncated. Nothing is truncated when the first write failed. Truncating an empty
 * file updates its times, as a write does.
 */
export function hasRest(stats: Stats, written: number, wanted: number): boolean {
  if (written === 0 && wanted > 0) return false;
  return stats.isFile() && (stats.size > written || written === 0);
}

/** Delays between attempts, so that a FIFO without a reader occupies a timer and not a thread. */
class WriteRetry {
  readonly #waiting: Waiting;
  readonly #backoff = new Backoff(WRITE_RETRY_FIRST_MS, WRITE_RETRY_LONGEST_MS);
  #hasReported = false;

  constructor(waiting: Waiting) {
    this.#waiting = waiting;
  }

  /** Resolves after a delay that grows each time. Rejects when the result is no longer needed. */
  async pause(): Promise<void> {
    if (!this.#hasReported) {
      this.#hasReported = true;
      this.#waiting.onWait();
    }
    try {
      await delay(this.#backoff.next(), undefined, { signal: this.#waiting.signal });
    } catch {
      throw new FileError('failed', 'the write was cancelled while the file was not ready');
    }
  }

  /** Resets the delay after progress. */
  reset(): void {
    this.#backoff.reset();
  }
}
