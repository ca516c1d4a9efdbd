import { lstat, realpath } from 'node:fs/promises';
import { forEachBounded } from '../../../base/for-each-bounded.ts';
import { errorCode, refused, toFileError } from '../../../files/errors.ts';
import type { FileSystem } from '../../../files/file-system.ts';
import { TREE_CALL_CONCURRENCY } from '../../../files/limits.ts';
import { directoryBatches } from '../../../files/local/directory-listing.ts';
import {
  childPath,
  isWithin,
  type NativePath,
  nativePathOfBytes,
  systemPath,
} from '../../../files/native-path.ts';
import { prospectivePath } from './real-path.ts';

/**
 * Copies a directory by operations that `files` may refuse one by one, because where an entry comes to lie is known only when it is
 * its turn: links in a destination that exists lead anywhere. What is no file, link or directory is left out.
 */
export async function copyTreeStepwise(
  files: Pick<FileSystem, 'copy' | 'createDirectory'>,
  source: NativePath,
  destination: NativePath,
): Promise<void> {
  try {
    const realSource = nativePathOfBytes(await realpath(systemPath(source), { encoding: 'latin1' }));
    await refuseWithin(realSource, destination);
    const pending = [{ from: source, to: destination }];
    for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
      const { from, to } = next;
      await files.createDirectory(to, { recursive: true, followSymlinks: true });
      await refuseWithin(realSource, to);
      for await (const batch of directoryBatches(from)) {
        await forEachBounded(batch, TREE_CALL_CONCURRENCY, async (entry) => {
          const [entryFrom, entryTo] = [childPath(from, entry.name), childPath(to, entry.name)];
          if (entry.isDirectory()) pending.push({ from: entryFrom, to: entryTo });
          else if (entry.isFile() || entry.isSymbolicLink()) {
            await files.copy(entryFrom, entryTo, { recursive: false });
          }
        });
      }
    }
  } catch (error) {
    throw toFileError(error);
  }
}

/** Whether something is at the path, be it a link to nothing. */
export async function exists(path: NativePath): Promise<boolean> {
  try {
    await lstat(systemPath(path));
    return true;
  } catch (error) {
    return errorCode(error) !== 'ENOENT';
  }
}

export async function isDirectoryItself(path: NativePath): Promise<boolean> {
  return await lstat(systemPath(path)).then(
    (stats) => stats.isDirectory(),
    () => false,
  );
}

async function refuseWithin(realSource: NativePath, destination: NativePath): Promise<void> {
  const target = await prospectivePath(destination);
  if (target !== null && isWithin(target, realSource)) {
    throw refused('fs/copy cannot copy a directory to itself or one of its descendants');
  }
}
