import { closeSync, fstatSync } from 'node:fs';
import type { CachedCalls } from '../native/cached-calls.ts';
import { Errno, systemError } from './errors.ts';
import type { FileContent, FileMetadata, FileSystem, LinkOption } from './file-system.ts';
import { followedMetadata, metadataOf } from './local/metadata.ts';
import { FileInPlace } from './local/open-file.ts';
import { contentOf, ReadContent } from './local/read-file.ts';
import type { NativePath } from './native-path.ts';

/** Calls that may not be there yet, or never. */
export interface CachedCallSource {
  readonly calls: CachedCalls | null;
  /** They would be of use. */
  prepare(): void;
}

/**
 * The same files; what the system has in memory is looked at, opened and read by the event loop itself, in microseconds, where each trip
 * to a thread and back costs ten times that, and more on a busy machine. So is told that there is no such file. Everything else goes the
 * way of `files`, also every other failure.
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

/** What turns out to be no regular file is left to the others: it has been opened without waiting, as they do it. */
function openCached(
  source: CachedCallSource,
  path: NativePath,
  { followSymlinks }: LinkOption,
): OpenCached | null {
  const calls = callsOf(source);
  const fd = calls === null ? null : found(calls.openFile(path, followSymlinks ? 'followed' : 'refused'));
  if (calls === null || fd === null) return null;
  const stats = fstatSync(fd);
  if (stats.isFile()) return { fd, size: stats.size, calls };
  closeSync(fd);
  return null;
}

/** All of a small file, closed again; null when it is large, or not as long as it said. */
function wholeIfSmall({ fd, size, calls }: OpenCached): FileContent | null {
  const bytes = calls.readSmall(fd, size);
  if (bytes === null) return null;
  closeSync(fd);
  return new ReadContent(bytes);
}

/** A link is left to the others: both it and what it leads to would have to be looked at. */
function cachedMetadata(
  source: CachedCallSource,
  path: NativePath,
  { followSymlinks }: LinkOption,
): FileMetadata | null {
  const calls = callsOf(source);
  const place = calls === null ? null : found(calls.openPath(path, followSymlinks ? 'endKept' : 'refused'));
  if (place === null) return null;
  try {
    const stats = fstatSync(place, { bigint: true });
    if (stats.isSymbolicLink()) return null;
    return followSymlinks ? followedMetadata(stats, false) : metadataOf(stats, false);
  } finally {
    closeSync(place);
  }
}

function callsOf(source: CachedCallSource): CachedCalls | null {
  if (source.calls === null) source.prepare();
  return source.calls;
}

/** The descriptor, or null when nothing is known at once. Throws where there is no such file. */
function found(opened: number | 'missing' | null): number | null {
  if (opened === 'missing') throw systemError(Errno.ENOENT);
  return opened;
}

const FOLLOWED: LinkOption = { followSymlinks: true };
const NOTHING_YET = Buffer.alloc(0);
