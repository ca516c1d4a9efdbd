import { lstat } from 'node:fs/promises';
import { Errno, errorCode, FileError, systemError } from '../../../files/errors.ts';
import {
  isWithin,
  type NativePath,
  parentPath,
  systemPath,
  textOfNativePath,
} from '../../../files/native-path.ts';
import { prospectiveEntry, prospectivePath } from './real-path.ts';

/**
 * The file systems that a sandbox adds: its /dev, /dev/pts and /proc, and the directories that hide those of the host. All are mounted
 * read-only in the sandbox of a helper, so the kernel refuses every change in them. So are the device files of the host in /dev. This class explains those refusals. It also finds the requests
 * that would succeed without a change and yet say something about the host: removing a path that only the sandbox lacks, or creating a
 * directory that only the sandbox has.
 */
export class AddedDirectories {
  readonly #roots: readonly NativePath[];
  readonly #devices: ReadonlySet<number>;

  private constructor(roots: readonly NativePath[], devices: ReadonlySet<number>) {
    this.#roots = roots;
    this.#devices = devices;
  }

  /** @param roots The root directories of the file systems. The sandbox need not have all of them. */
  static async of(roots: readonly NativePath[]): Promise<AddedDirectories> {
    const devices = await Promise.all(roots.map(deviceOf));
    return new AddedDirectories(roots, new Set(devices.filter((device) => device !== null)));
  }

  /** Throws when the path, or the target of a link there, is or would be in one of them. */
  async refuseTarget(path: NativePath): Promise<void> {
    if (await this.#contain(await prospectivePath(path))) throw notOnHost(path);
  }

  /** Throws when the entry at the path itself, which may be a link, is or would be in one of them. */
  async refuseEntry(path: NativePath): Promise<void> {
    if (await this.#contain(await prospectiveEntry(path))) throw notOnHost(path);
  }

  /** Throws when a directory is not wholly that of the host. A copy would silently lack the rest. */
  async refuseIncomplete(directory: NativePath): Promise<void> {
    const real = await prospectivePath(directory);
    const hasOne = real !== null && this.#roots.some((root) => isWithin(root, real));
    if (hasOne || (await this.#contain(real))) throw incomplete(directory);
  }

  /** Performs a change. Explains the kernel's refusal if one of the paths is in one of these directories. */
  async explain<T>(change: () => Promise<T>, ...paths: readonly NativePath[]): Promise<T> {
    try {
      return await change();
    } catch (error) {
      if (error instanceof FileError && error.errno === Errno.EROFS) {
        for (const path of paths) await this.refuseTarget(path);
      }
      throw error;
    }
  }

  /** Looks at the longest part of the path that exists. */
  async #contain(path: NativePath | null): Promise<boolean> {
    for (let existing = path; existing !== null; existing = parentPath(existing)) {
      try {
        return this.#devices.has((await lstat(systemPath(existing))).dev);
      } catch (error) {
        if (errorCode(error) !== 'ENOENT' || existing === '/') return false;
      }
    }
    return false;
  }
}

async function deviceOf(root: NativePath): Promise<number | null> {
  return await lstat(systemPath(root)).then(
    ({ dev }) => dev,
    () => null,
  );
}

/** Whether the path leads to a mask: an unreadable empty file that is mounted over a denied one. */
export async function isMask(path: NativePath): Promise<boolean> {
  const real = await prospectivePath(path);
  if (real === null) return false;
  try {
    const [file, directory] = await Promise.all([
      lstat(systemPath(real)),
      lstat(systemPath(parentPath(real))),
    ]);
    return file.isFile() && (file.mode & PERMISSIONS) === 0 && file.dev !== directory.dev;
  } catch {
    return false;
  }
}

const PERMISSIONS = 0o777;

function notOnHost(path: NativePath): FileError {
  return explained(
    Errno.EROFS,
    `at ${textOfNativePath(path)} the sandbox has a directory of its own, and nothing in it reaches the host; choose a path that the sandbox policy makes writable`,
  );
}

function incomplete(path: NativePath): FileError {
  return explained(
    Errno.EACCES,
    `the sandbox hides a part of ${textOfNativePath(path)}; copy the visible parts one by one`,
  );
}

/** The error for a protected name that does not exist. */
export function protectedName(path: NativePath): FileError {
  return explained(
    Errno.EROFS,
    `${textOfNativePath(path)} does not exist, and the sandbox protects its name; allow it with a write entry for exactly this path`,
  );
}

/** Starts with the text of the system error, which clients know. */
function explained(errno: number, why: string): FileError {
  const { kind, message } = systemError(errno);
  return new FileError(kind, `${message}: ${why}`, errno);
}
