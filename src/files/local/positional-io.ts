import { read, write } from 'node:fs';
import { Errno, refused, systemError, toFileError } from '../errors.ts';
import { MAX_FILE_OFFSET } from '../limits.ts';

/**
 * Reads into `buffer` from `start` on what the system has in memory, without waiting, and returns how much; null when it has nothing,
 * or this cannot be told.
 */
export type CachedRead = (fd: number, buffer: Buffer, start: number, position: number) => number | null;

/**
 * Up to `length` bytes of an open file from `position` on; fewer only at its end. They are in `into`, or else in memory that is not
 * zeroed first, and the descriptor is used directly: this is the path of large downloads.
 */
export async function readAt(
  fd: number,
  position: number,
  length: number,
  into?: Buffer,
  readCached?: CachedRead,
): Promise<Buffer> {
  if (!isExact(position, length)) return await readBeyondExact(fd, position, length);
  const buffer = into?.subarray(0, length) ?? Buffer.allocUnsafeSlow(length);
  let filled = 0;
  while (filled < length) {
    const at = position + filled;
    const count = readCached?.(fd, buffer, filled, at) ?? (await readOnce(fd, buffer, filled, at));
    if (count === 0) break;
    filled += count;
  }
  return buffer.subarray(0, filled);
}

/** Writes all the bytes of a range that {@link isExact}. */
export async function writeAt(fd: number, position: number, bytes: Uint8Array): Promise<void> {
  let written = 0;
  try {
    while (written < bytes.length) written += await writeOnce(fd, bytes, written, position + written);
  } catch (error) {
    throw toFileError(error);
  }
}

/** Whether every byte of the range has a position that a number tells apart from its neighbours. */
export function isExact(position: number, length: number): boolean {
  return position + length <= Number.MAX_SAFE_INTEGER;
}

/** Whether the range ends within what the system can address. */
export function isAddressable(position: number, length: number): boolean {
  return BigInt(position) + BigInt(length) <= MAX_FILE_OFFSET;
}

/**
 * So far out the position may have been rounded on its way here. That there is nothing can be told all the same; bytes from
 * somewhere near cannot be given away as those that were asked for.
 */
async function readBeyondExact(fd: number, position: number, length: number): Promise<Buffer> {
  if (!isAddressable(position, length)) throw systemError(Errno.EINVAL);
  const count = await readOnce(fd, Buffer.alloc(1), 0, BigInt(position));
  if (count > 0) throw refused(`file offset ${position} is too large to be exact`);
  return Buffer.alloc(0);
}

/** One read into `buffer` from `start` on; a position of null is where the last one ended. */
export function readOnce(
  fd: number,
  buffer: Buffer,
  start: number,
  position: number | bigint | null,
): Promise<number> {
  return new Promise((resolve, reject) => {
    read(fd, buffer, start, buffer.length - start, position, (error, count) => {
      if (error === null) resolve(count);
      else reject(toFileError(error));
    });
  });
}

/** One write of `bytes` from `start` on; a position of null is where the last one ended. Rejects with the system's own error. */
export function writeOnce(
  fd: number,
  bytes: Uint8Array,
  start: number,
  position: number | null,
): Promise<number> {
  return new Promise((resolve, reject) => {
    write(fd, bytes, start, bytes.length - start, position, (error, count) => {
      if (error === null) resolve(count);
      else reject(error);
    });
  });
}
