import { FileError, toFileError } from '../errors.ts';
import type { DirectoryEntry, LinkOption } from '../file-system.ts';
import { MAX_DIRECTORY_ENTRIES } from '../limits.ts';
import type { NativePath } from '../native-path.ts';
import { directoryBatches, type ListedEntry, resolveLinks } from './directory-listing.ts';
import { withDirectoryOpen } from './no-follow.ts';

/**
 * The entries of a directory. A link has the type of its target; dangling links are omitted. Where links are not followed, they are
 * listed as neither files nor directories.
 */
export async function readDirectory(
  path: NativePath,
  { followSymlinks }: LinkOption = { followSymlinks: true },
): Promise<DirectoryEntry[]> {
  if (followSymlinks) return await listEntries(path, resolveLinks);
  return await withDirectoryOpen(path, (held) => listEntries(held, async (_, entries) => entries));
}

/** A directory with too many entries is counted to the end, because the error contains the number, but the entries are not kept. */
async function listEntries(
  path: NativePath,
  resolve: (path: NativePath, entries: ListedEntry[]) => Promise<ListedEntry[]>,
): Promise<DirectoryEntry[]> {
  const entries: DirectoryEntry[] = [];
  let count = 0;
  try {
    for await (const batch of directoryBatches(path)) {
      const resolved = await resolve(path, batch);
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
