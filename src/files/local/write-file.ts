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
 * Makes `bytes` the content of a file, in place: the inode, its links and its mode stay, and a new file gets the usual mode. The
 * old content is written over and what is left of it cut off at the end, so that no reader finds the file empty in between.
 * Where links are followed a FIFO or a device is written too, and a FIFO without a reader is waited for.
 */
export async function writeFile(
  path: NativePath,
  bytes: Uint8Array,
  options: LinkOption,
  waiting: Waiting,
): Promise<void> {
  const patience = new Patience(waiting);
  try {
    const fd = options.followSymlinks
      ? await openAnything(path, patience)
      : await withParentOpen(path, (entry) => openRegularForWriting(entry, patience));
    await fillAndClose(fd, bytes, patience);
  } catch (error) {
    throw toFileError(error);
  }
}

/** Writes to something that is open already, as {@link writeFile} does, and closes it. */
export async function writeOpened(fd: number, bytes: Uint8Array, waiting: Waiting): Promise<void> {
  try {
    await fillAndClose(fd, bytes, new Patience(waiting));
  } catch (error) {
    throw toFileError(error);
  }
}

/** How files are opened for writing. */
export const WRITE_WITHOUT_WAITING =
  constants.O_WRONLY | constants.O_CREAT | constants.O_NONBLOCK | constants.O_NOCTTY;

async function openAnything(path: NativePath, patience: Patience): Promise<number> {
  for (;;) {
    try {
      return await openLeased(path, 0, patience);
    } catch (error) {
      if (errorCode(error) !== 'ENXIO' || !(await stat(systemPath(path))).isFIFO()) throw error;
    }
    await patience.pause();
  }
}

async function openRegularForWriting(entry: NativePath, patience: Patience): Promise<number> {
  const fd = await openLeased(entry, constants.O_NOFOLLOW, patience);
  try {
    if (!(await statDescriptor(fd)).isFile()) throw refused(NOT_REGULAR);
    return fd;
  } catch (error) {
    await closeDescriptor(fd);
    throw error;
  }
}

/** Opens for writing; where another process holds a lease on the file, once it has given that up. */
async function openLeased(path: NativePath, flags: number, patience: Patience): Promise<number> {
  for (;;) {
    try {
      return await openDescriptor(systemPath(path), WRITE_WITHOUT_WAITING | flags, 0o666);
    } catch (error) {
      if (errorCode(error) !== 'EAGAIN') throw error;
    }
    await patience.pause();
  }
}

async function fillAndClose(fd: number, bytes: Uint8Array, patience: Patience): Promise<void> {
  try {
    await fill(fd, bytes, patience);
  } finally {
    await closeDescriptor(fd);
  }
}

/** Writes everything. A file that fails half way is cut where it failed: it never ends in what it held before. */
async function fill(fd: number, bytes: Uint8Array, patience: Patience): Promise<void> {
  let written = 0;
  // Asked while it is being written: the file is as long as it was, or as long as what is written, whichever is more.
  const looking = statDescriptor(fd).catch((error: Error) => error);
  try {
    while (written < bytes.length) {
      written += await writeSome(fd, bytes, written, patience);
    }
  } finally {
    await cutRest(fd, await looking, written, bytes.length);
  }
}

async function writeSome(fd: number, bytes: Uint8Array, start: number, patience: Patience): Promise<number> {
  for (;;) {
    try {
      const count = await writeOnce(fd, bytes, start, null);
      patience.renew();
      return count;
    } catch (error) {
      if (errorCode(error) !== 'EAGAIN') throw error;
    }
    await patience.pause();
  }
}

async function cutRest(fd: number, stats: Stats | Error, written: number, wanted: number): Promise<void> {
  if (stats instanceof Error) throw stats;
  if (hasRest(stats, written, wanted)) await truncateDescriptor(fd, written);
}

/**
 * Whether the old content must be cut off behind what was written of `wanted` bytes; nothing is when the first write failed. Cutting
 * an empty file changes its times, as any write does.
 */
export function hasRest(stats: Stats, written: number, wanted: number): boolean {
  if (written === 0 && wanted > 0) return false;
  return stats.isFile() && (stats.size > written || written === 0);
}

/** Pauses between attempts, so that whoever never reads occupies a timer and not a thread. */
class Patience {
  readonly #waiting: Waiting;
  readonly #backoff = new Backoff(WRITE_RETRY_FIRST_MS, WRITE_RETRY_LONGEST_MS);
  #told = false;

  constructor(waiting: Waiting) {
    this.#waiting = waiting;
  }

  /** Ends after a while, longer each time; fails when the result is no longer wanted. */
  async pause(): Promise<void> {
    if (!this.#told) {
      this.#told = true;
      this.#waiting.onWait();
    }
    try {
      await delay(this.#backoff.next(), undefined, { signal: this.#waiting.signal });
    } catch {
      throw new FileError('failed', 'the file was not ready before the write was given up');
    }
  }

  /** Something went on: the next pause is short again. */
  renew(): void {
    this.#backoff.reset();
  }
}
