import { read, write } from 'node:fs';
import { Errno, refused, systemError, toFileError } from '../errors.ts';
import { MAX_FILE_OFFSET } from '../limits.ts';

/**
 * Reads from the page cache into `buffer` at `start`, without blocking. Returns the number of bytes; null when the bytes are not
 * cached or the cache cannot be queried.
 */
export type CachedRead = (fd: number, buffer: Buffer, start: number, position: number) => number | null;

/**
 * Reads up to `length` bytes from `position`; fewer only at the end of the file. The result is in `into`, or else in a new buffer
 * that is not zeroed. This is the hot path of large downloads.
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

/** Writes all bytes of a range that {@link isExact}. */
export async function writeAt(fd: number, position: number, bytes: Uint8Array): Promise<void> {
  let written = 0;
  try {
    while (written < bytes.length) written += await writeOnce(fd, bytes, written, position + written);
  } catch (error) {
    throw toFileError(error);
  }
}

/** Whether every offset of the range is a safe integer. */
export function isExact(position: number, length: number): boolean {
  return position + length <= Number.MAX_SAFE_INTEGER;
}

/** Whether the range ends within the largest file offset. */
export function isAddressable(position: number, length: number): boolean {
  return BigInt(position) + BigInt(length) <= MAX_FILE_OFFSET;
}

/**
 * The position may have been rounded on its way here. The end of the file can still be reported, but bytes at a nearby position
 * must not be returned as the requested ones.
 */
async function readBeyondExact(fd: number, position: number, length: number): Promise<Buffer> {
  if (!isAddressable(position, length)) throw systemError(Errno.EINVAL);
  const count = await readOnce(fd, Buffer.alloc(1), 0, BigInt(position));
  if (count > 0) throw refused(`file offset ${position} is too large to be exact`);
  return Buffer.alloc(0);
}

/** One read into `buffer` at `start`. A position of null continues at the current file offset. */
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

/**
 * One write of `bytes` from `start`. A position of null continues at the current file offset. Rejects with the error of `node:fs`.
 */
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
