import { closeSync, fstatSync, openSync } from 'node:fs';
import type { CachedCalls } from '../native/cached-calls.ts';
import type { FileSystem, LinkOption } from './file-system.ts';
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
 * The same files; what the system has in memory is opened and read by the event loop itself, in microseconds, where each trip to a
 * thread and back costs ten times that, and more on a busy machine. Everything else goes the way of `files`, also every failure.
 */
export function cachedFileSystem(files: FileSystem, source: CachedCallSource): FileSystem {
  return {
    ...files,

    readFile: async (path, options) => {
      const opened = openCached(source, path, options);
      if (opened === null) return await files.readFile(path, options);
      return await contentOf(opened.fd, opened.size, NOTHING_YET, opened.read);
    },

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
  const { calls } = source;
  if (calls === null) {
    source.prepare();
    return null;
  }
  const place = calls.openPath(path, followSymlinks);
  if (place === null) return null;
  try {
    const stats = fstatSync(place);
    if (!stats.isFile()) return null;
    const fd = openIfAllowed(`/proc/self/fd/${place}`);
    return fd === null ? null : { fd, size: stats.size, read: calls.read };
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
