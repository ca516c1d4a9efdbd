import { fchmodSync, fstatSync } from 'node:fs';
import { stat } from 'node:fs/promises';
import { Errno, systemError } from '../../../files/errors.ts';
import type { FileSystem } from '../../../files/file-system.ts';
import { type NativePath, systemPath } from '../../../files/native-path.ts';
import { HELPER_FIRST_DESCRIPTORS } from '../limits.ts';

/**
 * Prevents opening the pipes of this process again through /proc/self/fd. A client could otherwise forge answers to other clients, or write
 * to the pipes of Node's event loops, which carry pointers.
 */
export function sealOwnPipes(): void {
  for (let descriptor = 0; descriptor < HELPER_FIRST_DESCRIPTORS; descriptor++) {
    try {
      if (fstatSync(descriptor).isFIFO()) fchmodSync(descriptor, 0);
    } catch {
      // It is not open.
    }
  }
}

/** Files without the pipes of threads that were started later. `hasThreads` is false until the first of them. */
export function withoutPipes(files: FileSystem, hasThreads: () => boolean): FileSystem {
  // All pipes that have no name are on one device.
  const device = fstatSync(0).dev;
  const refusePipe = async (path: NativePath): Promise<void> => {
    if (!hasThreads()) return;
    const stats = await stat(systemPath(path)).catch(() => null);
    if (stats?.isFIFO() && stats.dev === device) throw systemError(Errno.EACCES);
  };
  return {
    ...files,
    writeFile: async (path, bytes, options, waiting) => {
      await refusePipe(path);
      await files.writeFile(path, bytes, options, waiting);
    },
    copy: async (source, destination, options) => {
      await refusePipe(destination);
      await files.copy(source, destination, options);
    },
  };
}
