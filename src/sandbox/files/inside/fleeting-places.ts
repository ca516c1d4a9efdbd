import { lstat } from 'node:fs/promises';
import { errorCode } from '../../../files/errors.ts';
import { type NativePath, parentPath, systemPath } from '../../../files/native-path.ts';
import { prospectivePath } from './real-path.ts';

/** The file systems that a sandbox has in memory, where nothing that is made would last. */
export class FleetingPlaces {
  readonly #devices: ReadonlySet<number>;

  private constructor(devices: ReadonlySet<number>) {
    this.#devices = devices;
  }

  /** @param roots Their topmost directories. */
  static async of(roots: readonly NativePath[]): Promise<FleetingPlaces> {
    const stats = await Promise.all(roots.map((root) => lstat(systemPath(root))));
    return new FleetingPlaces(new Set(stats.map(({ dev }) => dev)));
  }

  /** Whether something made at the path would come to lie in one of them. */
  async hold(path: NativePath): Promise<boolean> {
    if (this.#devices.size === 0) return false;
    let place = await prospectivePath(path);
    while (place !== null) {
      try {
        return this.#devices.has((await lstat(systemPath(place))).dev);
      } catch (error) {
        if (errorCode(error) !== 'ENOENT' || place === '/') return false;
        place = parentPath(place);
      }
    }
    return false;
  }
}

/** Whether the path leads to an empty file that is mounted in place of another and that nobody may read. */
export async function isMask(path: NativePath): Promise<boolean> {
  const place = await prospectivePath(path);
  if (place === null) return false;
  try {
    const [file, directory] = await Promise.all([
      lstat(systemPath(place)),
      lstat(systemPath(parentPath(place))),
    ]);
    return file.isFile() && (file.mode & PERMISSIONS) === 0 && file.dev !== directory.dev;
  } catch {
    return false;
  }
}

const PERMISSIONS = 0o777;
