import { rename as renameFile } from 'node:fs/promises';
import { toFileError } from '../errors.ts';
import { type NativePath, systemPath } from '../native-path.ts';

/**
 * Gives a file, link or directory another name on the same file system, in one step. A file at the destination is replaced, a
 * directory only when it is empty. Nothing happens when both names are those of the same file.
 */
export async function rename(source: NativePath, destination: NativePath): Promise<void> {
  try {
    await renameFile(systemPath(source), systemPath(destination));
  } catch (error) {
    throw toFileError(error);
  }
}
