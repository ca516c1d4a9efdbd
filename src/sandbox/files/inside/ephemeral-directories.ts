import { lstat } from 'node:fs/promises';
import { errorCode } from '../../../files/errors.ts';
import { type NativePath, parentPath, systemPath } from '../../../files/native-path.ts';
import { prospectivePath } from './real-path.ts';

/** The in-memory file systems of a sandbox. Nothing that is created there outlives the sandbox. */
export class EphemeralDirectories {
  readonly #devices: ReadonlySet<number>;

  private constructor(devices: ReadonlySet<number>) {
    this.#devices = devices;
  }

  /** @param roots The root directories of the file systems. */
  static async of(roots: readonly NativePath[]): Promise<EphemeralDirectories> {
    const stats = await Promise.all(roots.map((root) => lstat(systemPath(root))));
    return new EphemeralDirectories(new Set(stats.map(({ dev }) => dev)));
  }

  /** Whether an entry created at the path would be in one of them. */
  async contain(path: NativePath): Promise<boolean> {
    if (this.#devices.size === 0) return false;
    let existing = await prospectivePath(path);
    while (existing !== null) {
      try {
        return this.#devices.has((await lstat(systemPath(existing))).dev);
      } catch (error) {
        if (errorCode(error) !== 'ENOENT' || existing === '/') return false;
        existing = parentPath(existing);
      }
    }
    return false;
  }
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
