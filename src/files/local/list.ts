import type { BigIntStats } from 'node:fs';
import { lstat, opendir, readlink } from 'node:fs/promises';
import { forEachBounded } from '../../base/for-each-bounded.ts';
import { errorCode, FileError, toFileError } from '../errors.ts';
import type { FileAttributes, LinkOption, PathListing } from '../file-system.ts';
import { MAX_DIRECTORY_ENTRIES, TREE_CALL_CONCURRENCY } from '../limits.ts';
import { childPath, type NativePath, systemPath } from '../native-path.ts';
import { isPlaceholderMode } from '../placeholder-mode.ts';
import { directoryBatches } from './directory-listing.ts';
import { metadataOf } from './metadata.ts';
import { OpenDirectory, withParentOpen } from './no-follow.ts';

/**
 * The attributes of what is at a path and, if it is a directory, of what is in it. Follows no link at the end of the path or in the
 * directory. Placeholders of sandboxes are left out: they disappear with the sandbox.
 */
export async function list(path: NativePath, { followSymlinks }: LinkOption): Promise<PathListing> {
  try {
    if (followSymlinks || path === '/') return await listAt(path, (read) => read(path));
    return await withParentOpen(path, (entry) =>
      listAt(entry, async (read) => {
        // A link that replaced the directory meanwhile is an error.
        const directory = await OpenDirectory.at(entry);
        return await read(directory.path).finally(() => directory.close());
      }),
    );
  } catch (error) {
    throw toFileError(error);
  }
}

type Entries = NonNullable<PathListing['entries']>;

async function listAt(
  path: NativePath,
  reading: (read: (directory: NativePath) => Promise<Entries>) => Promise<Entries>,
): Promise<PathListing> {
  const attributes = await attributesOf(path);
  return { attributes, entries: attributes.kind === 'directory' ? await reading(entriesOf) : null };
}

async function entriesOf(directory: NativePath): Promise<Entries> {
  const entries: Entries[number][] = [];
  let count = 0;
  for await (const batch of directoryBatches(directory)) {
    count += batch.length;
    if (count > MAX_DIRECTORY_ENTRIES) continue;
    await forEachBounded(batch, TREE_CALL_CONCURRENCY, async ({ name }) => {
      const attributes = await unlessGone(entryOf(childPath(directory, name)));
      if (attributes !== null) entries.push({ name, ...attributes });
    });
  }
  if (count <= MAX_DIRECTORY_ENTRIES) return entries;
  throw new FileError('failed', `the directory has ${count} entries; the limit is ${MAX_DIRECTORY_ENTRIES}`);
}

/** Null for a placeholder. */
async function entryOf(path: NativePath): Promise<FileAttributes | null> {
  const stats = await lstat(systemPath(path), { bigint: true });
  return (await isPlaceholder(path, stats)) ? null : attributesFrom(path, stats);
}

/** Placeholders are empty. Another entry with such a mode is none. */
async function isPlaceholder(path: NativePath, stats: BigIntStats): Promise<boolean> {
  if (!isPlaceholderMode(Number(stats.mode))) return false;
  if (stats.isFile()) return stats.size === 0n;
  return stats.isDirectory() && (await isEmpty(path));
}

async function isEmpty(directory: NativePath): Promise<boolean> {
  try {
    const entries = await opendir(systemPath(directory));
    return await entries
      .read()
      .then((first) => first === null)
      .finally(() => entries.close());
  } catch {
    return false;
  }
}

async function attributesOf(path: NativePath): Promise<FileAttributes> {
  return attributesFrom(path, await lstat(systemPath(path), { bigint: true }));
}

async function attributesFrom(path: NativePath, stats: BigIntStats): Promise<FileAttributes> {
  const { size, modifiedAtMs } = metadataOf(stats, false);
  const attributes = { kind: kindOf(stats), size, mode: Number(stats.mode) & PERMISSION_BITS, modifiedAtMs };
  if (attributes.kind !== 'symlink') return attributes;
  return { ...attributes, target: await readlink(systemPath(path), 'latin1') };
}

function kindOf(stats: BigIntStats): FileAttributes['kind'] {
  if (stats.isFile()) return 'file';
  if (stats.isDirectory()) return 'directory';
  return stats.isSymbolicLink() ? 'symlink' : 'other';
}

/** An entry may be removed, or replaced by another kind, after its directory was read. */
async function unlessGone(reading: Promise<FileAttributes | null>): Promise<FileAttributes | null> {
  try {
    return await reading;
  } catch (error) {
    if (errorCode(error) === 'ENOENT' || errorCode(error) === 'EINVAL') return null;
    throw error;
  }
}

const PERMISSION_BITS = 0o777;
