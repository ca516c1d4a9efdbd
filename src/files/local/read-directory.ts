import { FileError, toFileError } from '../errors.ts';
import type { DirectoryEntry } from '../file-system.ts';
import { MAX_DIRECTORY_ENTRIES } from '../limits.ts';
import type { NativePath } from '../native-path.ts';
import { directoryBatches, resolveLinks } from './directory-listing.ts';

/**
 * The entries of a directory, links being what they lead to; those that lead nowhere are left out. A directory with too many
 * entries is counted to the end, because the error tells how many there are, but they are not kept.
 */
export async function readDirectory(path: NativePath): Promise<DirectoryEntry[]> {
  const entries: DirectoryEntry[] = [];
  let count = 0;
  try {
    for await (const batch of directoryBatches(path)) {
      const resolved = await resolveLinks(path, batch);
      count += resolved.length;
      if (count > MAX_DIRECTORY_ENTRIES) continue;
      for (const entry of resolved) {
        entries.push({ name: entry.name, isDirectory: entry.isDirectory(), isFile: entry.isFile() });
      }
    }
  } catch (error) {
    throw toFileError(error);
  }
  if (count > MAX_DIRECTORY_ENTRIES) {
    throw new FileError(
      'failed',
      `fs/readDirectory returned ${count} entries; limit is ${MAX_DIRECTORY_ENTRIES}`,
    );
  }
  return entries;
}
