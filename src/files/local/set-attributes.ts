import { constants, type Stats } from 'node:fs';
import { chmod, type FileHandle, lutimes, open, utimes } from 'node:fs/promises';
import { type FileError, refused, toFileError } from '../errors.ts';
import type { NewAttributes } from '../file-system.ts';
import { type NativePath, systemPath } from '../native-path.ts';
import { O_PATH, requireProc } from './no-follow.ts';

/**
 * Sets the mode and the modification time of the file or directory at a path. A link as the last name is not followed: its own time
 * is set, and its mode is refused because Linux has none. The set-group-ID and sticky bits of a directory stay, so that a shared
 * directory remains one; a file loses its special bits. The access time stays. A time that the file system cannot store is refused, and
 * the old one is set again.
 */
export async function setAttributes(path: NativePath, attributes: NewAttributes): Promise<void> {
  try {
    await requireProc();
    // The descriptor stands for the file that was checked, whatever another process puts at the path meanwhile.
    const handle = await open(systemPath(path), O_PATH | constants.O_NOFOLLOW);
    try {
      await setThrough(handle, path, attributes);
    } finally {
      await handle.close();
    }
  } catch (error) {
    throw toFileError(error);
  }
}

async function setThrough(handle: FileHandle, path: NativePath, attributes: NewAttributes): Promise<void> {
  const { mode, modifiedAtMs } = attributes;
  const stats = await handle.stat();
  const atime = stats.atimeMs / 1000;
  if (stats.isSymbolicLink()) {
    if (mode !== undefined) throw refused('a symbolic link has no mode; set the mode of its target');
    // A file that replaced the link meanwhile gets the time instead, which its owner asked for at this path.
    const set = (ms: number) => lutimes(systemPath(path), atime, seconds(ms));
    await setTime(modifiedAtMs, stats.mtimeMs, set, () => handle.stat());
    return;
  }
  const itself = `/proc/self/fd/${handle.fd}`;
  const set = (ms: number) => utimes(itself, atime, seconds(ms));
  await setTime(modifiedAtMs, stats.mtimeMs, set, () => handle.stat());
  if (mode !== undefined)
    await chmod(itself, stats.isDirectory() ? mode | (stats.mode & SPECIAL_BITS) : mode);
}

/** The same for a file that is open for writing. */
export async function setOpenAttributes(handle: FileHandle, attributes: NewAttributes): Promise<void> {
  const { mode, modifiedAtMs } = attributes;
  const now = Date.now();
  const set = (ms: number) => handle.utimes(now / 1000, seconds(ms));
  await setTime(modifiedAtMs, now, set, () => handle.stat());
  if (mode !== undefined) await handle.chmod(mode);
}

/** The kernel stores the nearest time that the file system can hold, without an error. Sets the time back to `before` then. */
async function setTime(
  wanted: number | undefined,
  before: number,
  set: (ms: number) => Promise<void>,
  stat: () => Promise<Stats>,
): Promise<void> {
  if (wanted === undefined) return;
  if (Math.abs(wanted) > MAX_DATE_MS) throw unstorable(wanted);
  await set(wanted);
  const { mtimeMs } = await stat();
  if (Math.abs(mtimeMs - wanted) <= COARSEST_TIME_MS) return;
  await set(before);
  throw unstorable(wanted);
}

function unstorable(ms: number): FileError {
  return refused(`the file system of this path cannot store the modification time ${ms} (modifiedAtMs)`);
}

/**
 * Node passes times as floating-point seconds, which cannot hold most milliseconds exactly. One microsecond more keeps the system
 * from rounding down to the millisecond before.
 */
function seconds(ms: number): number | Date {
  // Node takes negative numbers for the present time.
  if (ms < 0) return new Date(ms);
  return ms % 1000 === 0 ? ms / 1000 : (ms + 0.001) / 1000;
}

/** The largest distance from 1970 of a Date. */
const MAX_DATE_MS = 8.64e15;
/** FAT stores even seconds. */
const COARSEST_TIME_MS = 2_000;
const SPECIAL_BITS = 0o7000;
