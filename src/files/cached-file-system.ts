import { closeSync, fstatSync, openSync } from 'node:fs';
import type { CachedCalls, Links } from '../native/cached-calls.ts';
import { Errno, systemError } from './errors.ts';
import type { FileMetadata, FileSystem, LinkOption } from './file-system.ts';
import { followedMetadata, metadataOf } from './local/metadata.ts';
import { FileInPlace } from './local/open-file.ts';
import { READ_WITHOUT_WAITING } from './local/open-regular.ts';
import type { CachedRead } from './local/positional-io.ts';
import { contentOf } from './local/read-file.ts';
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
export function cachedFileSystem(files: FileSystem, source: CachedCallSource): FileSystem {
  return {
    ...files,

    readFile: async (path, options) => {
      const opened = openCached(source, path, options);
      if (opened === null) return await files.readFile(path, options);
      return await contentOf(opened.fd, opened.size, NOTHING_YET, opened.read);
    },

    getMetadata: async (path, options) =>
      cachedMetadata(source, path, options) ?? (await files.getMetadata(path, options)),

    open: async (path, mode, options) => {
      const opened = mode === 'read' ? openCached(source, path, options ?? FOLLOWED) : null;
      return opened === null
        ? await files.open(path, mode, options)
        : new FileInPlace(opened.fd, opened.read);
    },
  };
}

interface OpenCached {
  readonly fd: number;
  readonly size: number;
  readonly read: CachedRead;
}

/** What is no regular file is only looked at and never opened here: a driver may take its time. */
function openCached(
  source: CachedCallSource,
  path: NativePath,
  { followSymlinks }: LinkOption,
): OpenCached | null {
  return atPlace(source, path, followSymlinks ? 'followed' : 'refused', (place, { read }) => {
    const stats = fstatSync(place);
    if (!stats.isFile()) return null;
    const fd = openIfAllowed(`/proc/self/fd/${place}`);
    return fd === null ? null : { fd, size: stats.size, read };
  });
}

/** A link is left to the others: both it and what it leads to would have to be looked at. */
function cachedMetadata(
  source: CachedCallSource,
  path: NativePath,
  { followSymlinks }: LinkOption,
): FileMetadata | null {
  return atPlace(source, path, followSymlinks ? 'endKept' : 'refused', (place) => {
    const stats = fstatSync(place, { bigint: true });
    if (stats.isSymbolicLink()) return null;
    return followSymlinks ? followedMetadata(stats, false) : metadataOf(stats, false);
  });
}

/** Does something with a descriptor that names the path. Null when it cannot be done at once. Throws where there is no such file. */
function atPlace<T>(
  source: CachedCallSource,
  path: NativePath,
  links: Links,
  act: (place: number, calls: CachedCalls) => T | null,
): T | null {
  const { calls } = source;
  if (calls === null) {
    source.prepare();
    return null;
  }
  const place = calls.openPath(path, links);
  if (place === null) return null;
  if (place === 'missing') throw systemError(Errno.ENOENT);
  try {
    return act(place, calls);
  } finally {
    closeSync(place);
  }
}

function openIfAllowed(path: string): number | null {
  try {
    return openSync(path, READ_WITHOUT_WAITING);
  } catch {
    return null;
  }
}

const FOLLOWED: LinkOption = { followSymlinks: true };
const NOTHING_YET = Buffer.alloc(0);
