import { closeSync, fstatSync } from 'node:fs';
import type { CachedCalls } from '../native/cached-calls.ts';
import { Errno, systemError } from './errors.ts';
import type { FileContent, FileMetadata, FileSystem, LinkOption } from './file-system.ts';
import { followedMetadata, metadataOf } from './local/metadata.ts';
import { FileInPlace } from './local/open-file.ts';
import { contentOf, ReadContent } from './local/read-file.ts';
import type { NativePath } from './native-path.ts';

/** Gives the system calls that answer only from the page cache. Null until they are loaded, and where they are not available. */
type CachedCallSource = () => CachedCalls | null;

/**
 * The same files. If an inode is in the cache, the event loop itself opens, stats and reads it in microseconds; a round trip to a
 * thread costs ten times as much, and more on a busy machine. A missing file is also reported from the cache. Everything else,
 * including every other error, goes to `files`.
 */
export function pageCacheFileSystem(files: FileSystem, source: CachedCallSource): FileSystem {
  return {
    ...files,

    readFile: async (path, options) => {
      const opened = openCached(source, path, options);
      if (opened === null) return await files.readFile(path, options);
      return (
        wholeIfSmall(opened) ?? (await contentOf(opened.fd, opened.size, NOTHING_YET, opened.calls.read))
      );
    },

    getMetadata: async (path, options) =>
      cachedMetadata(source, path, options) ?? (await files.getMetadata(path, options)),

    open: async (path, mode, options) => {
      const opened = mode === 'read' ? openCached(source, path, options ?? FOLLOWED) : null;
      return opened === null
        ? await files.open(path, mode, options)
        : new FileInPlace(opened.fd, opened.calls.read);
    },
  };
}

interface OpenCached {
  readonly fd: number;
  readonly size: number;
  readonly calls: CachedCalls;
}

/** If it is not a regular file, `files` handles it. Opening it did not block, because the flags are the same as there. */
function openCached(
  source: CachedCallSource,
  path: NativePath,
  { followSymlinks }: LinkOption,
): OpenCached | null {
  const calls = source();
  const fd = calls === null ? null : found(calls.openFile(path, followSymlinks ? 'followed' : 'refused'));
  if (calls === null || fd === null) return null;
  const stats = fstatSync(fd);
  if (stats.isFile()) return { fd, size: stats.size, calls };
  closeSync(fd);
  return null;
}

/** The content of a small file, which is then closed; null if the file is large or its length differs from its size. */
function wholeIfSmall({ fd, size, calls }: OpenCached): FileContent | null {
  const bytes = calls.readSmall(fd, size);
  if (bytes === null) return null;
  closeSync(fd);
  return new ReadContent(bytes);
}

/** Null for a link, which needs a stat of the link and of its target. */
function cachedMetadata(
  source: CachedCallSource,
  path: NativePath,
  { followSymlinks }: LinkOption,
): FileMetadata | null {
  const calls = source();
  const fd = calls === null ? null : found(calls.openPath(path, followSymlinks ? 'endKept' : 'refused'));
  if (fd === null) return null;
  try {
    const stats = fstatSync(fd, { bigint: true });
    if (stats.isSymbolicLink()) return null;
    return followSymlinks ? followedMetadata(stats, false) : metadataOf(stats, false);
  } finally {
    closeSync(fd);
  }
}

/** The descriptor, or null if the cache has no answer. Throws ENOENT if the cache knows that the file does not exist. */
function found(opened: number | 'missing' | null): number | null {
  if (opened === 'missing') throw systemError(Errno.ENOENT);
  return opened;
}

const FOLLOWED: LinkOption = { followSymlinks: true };
const NOTHING_YET = Buffer.alloc(0);
