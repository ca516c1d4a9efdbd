import { lstat, realpath } from 'node:fs/promises';
import { forEachBounded } from '../../../base/for-each-bounded.ts';
import { Errno, errorCode, refused, systemError, toFileError } from '../../../files/errors.ts';
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
import type { AbsentPaths } from './absent-paths.ts';
import { prospectivePath } from './real-path.ts';

/**
 * Copies a directory entry by entry through `files`, which may refuse each one. The target of an entry is known only when its turn comes,
 * because links in an existing destination can point anywhere. Skips everything but files, links and directories.
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

/** Whether an entry exists at the path. A dangling link counts. */
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

/**
 * Removes a directory that contains paths which must stay absent. Keeps the entries at those paths: while a program runs, they are mount
 * points in its sandbox. Removing a mount point removes the mount, and the program could then create anything there. Fails with EBUSY
 * when an entry was kept.
 */
export async function removeTreeStepwise(
  files: Pick<FileSystem, 'remove'>,
  absent: AbsentPaths,
  directory: NativePath,
): Promise<void> {
  const isKept = await empty(files, absent, directory);
  if (isKept) throw systemError(Errno.EBUSY);
  await files.remove(directory, WITH_CONTENT);
}

const WITH_CONTENT = { recursive: true, force: true, followSymlinks: true } as const;

/** Returns whether an entry was kept. */
async function empty(
  files: Pick<FileSystem, 'remove'>,
  absent: AbsentPaths,
  directory: NativePath,
): Promise<boolean> {
  const inner: NativePath[] = [];
  let isKept = false;
  try {
    for await (const batch of directoryBatches(directory)) {
      for (const entry of batch) {
        const path = childPath(directory, entry.name);
        if ((await absent.entry(path)) !== null) isKept = true;
        else if (entry.isDirectory() && (await absent.isAbove(path))) inner.push(path);
        else await files.remove(path, WITH_CONTENT);
      }
    }
  } catch (error) {
    throw toFileError(error);
  }
  for (const path of inner) {
    if (await empty(files, absent, path)) isKept = true;
    else await files.remove(path, WITH_CONTENT);
  }
  return isKept;
}
