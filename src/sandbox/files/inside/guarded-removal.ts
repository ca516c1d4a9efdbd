import { Errno, systemError, toFileError } from '../../../files/errors.ts';
import type { FileSystem } from '../../../files/file-system.ts';
import { directoryBatches } from '../../../files/local/directory-listing.ts';
import { childPath, type NativePath } from '../../../files/native-path.ts';
import type { AbsentPaths } from './absent-paths.ts';

/**
 * Empties a directory above paths that must not come to exist, and leaves what lies at them: while a program runs, that is the place of
 * a mount in its sandbox. Whoever removes the place removes the mount, and the program could make there what it likes. Fails with
 * EBUSY when something was left.
 */
export async function removeTreeStepwise(
  files: Pick<FileSystem, 'remove'>,
  absent: AbsentPaths,
  directory: NativePath,
): Promise<void> {
  const isLeft = await empty(files, absent, directory);
  if (isLeft) throw systemError(Errno.EBUSY);
  await files.remove(directory, WITH_CONTENT);
}

const WITH_CONTENT = { recursive: true, force: true, followSymlinks: true } as const;

/** Whether something is left. */
async function empty(
  files: Pick<FileSystem, 'remove'>,
  absent: AbsentPaths,
  directory: NativePath,
): Promise<boolean> {
  const inner: NativePath[] = [];
  let isLeft = false;
  try {
    for await (const batch of directoryBatches(directory)) {
      for (const entry of batch) {
        const path = childPath(directory, entry.name);
        if ((await absent.entry(path)) !== null) isLeft = true;
        else if (entry.isDirectory() && (await absent.isAbove(path))) inner.push(path);
        else await files.remove(path, WITH_CONTENT);
      }
    }
  } catch (error) {
    throw toFileError(error);
  }
  for (const path of inner) {
    if (await empty(files, absent, path)) isLeft = true;
    else await files.remove(path, WITH_CONTENT);
  }
  return isLeft;
}
