import { closeSync, fstatSync, ftruncateSync, openSync, readSync, type Stats, writeSync } from 'node:fs';
import { errorCode, refused } from '../errors.ts';
import { SMALL_FILE_BYTES } from '../limits.ts';
import { notAFile, READ_WITHOUT_WAITING } from '../local/open-regular.ts';
import { hasRest, WRITE_WITHOUT_WAITING } from '../local/write-file.ts';
import { type NativePath, systemPath } from '../native-path.ts';
import type { ThreadAnswers } from './thread-messages.ts';

/** Opens a regular file, reads its beginning and, if that is all, closes it: for a thread that may hang. */
export function readSmallFileSync(path: NativePath): ThreadAnswers['read'] {
  const fd = openSync(systemPath(path), READ_WITHOUT_WAITING);
  let isComplete = true;
  try {
    const stats = fstatSync(fd);
    if (!stats.isFile()) throw refused(notAFile(path));
    const { size } = stats;
    const head = readHead(fd, size);
    // What says that it is empty may be made up by the kernel and have any length.
    isComplete = head?.length === size && size > 0 && size <= SMALL_FILE_BYTES;
    return { fd: isComplete ? null : fd, size, head };
  } finally {
    if (isComplete) closeSync(fd);
  }
}

/** One byte more than there should be is asked for: a file that has grown is not complete. */
function readHead(fd: number, size: number): string | null {
  const head = Buffer.allocUnsafe(Math.min(size, SMALL_FILE_BYTES) + 1);
  try {
    return head.toString('latin1', 0, readSync(fd, head, 0, head.length, 0));
  } catch {
    return null;
  }
}

/** Like `writeFile`, for a thread that may hang. A FIFO, a device, or a file that somebody holds a lease on is left to the caller. */
export function writeSmallFileSync(path: NativePath, bytes: Uint8Array): ThreadAnswers['write'] {
  const fd = openNow(path);
  if (fd === null) return 'notOpened';
  let isRegular = true;
  try {
    const stats = fstatSync(fd);
    isRegular = stats.isFile();
    if (!isRegular) return fd;
    fillNow(fd, bytes, stats);
    return 'written';
  } finally {
    if (isRegular) closeSync(fd);
  }
}

/** Null where opening has to be tried again later. */
function openNow(path: NativePath): number | null {
  try {
    return openSync(systemPath(path), WRITE_WITHOUT_WAITING, 0o666);
  } catch (error) {
    if (errorCode(error) === 'ENXIO' || errorCode(error) === 'EAGAIN') return null;
    throw error;
  }
}

function fillNow(fd: number, bytes: Uint8Array, stats: Stats): void {
  let written = 0;
  try {
    while (written < bytes.length) written += writeSync(fd, bytes, written);
  } finally {
    if (hasRest(stats, written, bytes.length)) ftruncateSync(fd, written);
  }
}
