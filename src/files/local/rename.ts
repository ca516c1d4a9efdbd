import { rename as renameFile } from 'node:fs/promises';
import { toFileError } from '../errors.ts';
import { type NativePath, systemPath } from '../native-path.ts';

/**
 * Renames a file, link or directory within one file system, atomically. Replaces a file at the destination, or an empty directory.
 * Does nothing when both names are hard links of the same file.
 */
export async function rename(source: NativePath, destination: NativePath): Promise<void> {
  try {
    await renameFile(systemPath(source), systemPath(destination));
  } catch (error) {
    throw toFileError(error);
  }
}
