import { type BigIntStats, lstat as lstatWithCallback, stat as statWithCallback } from 'node:fs';
import { realpath } from 'node:fs/promises';
import { refused, toFileError } from '../errors.ts';
import type { FileMetadata, LinkOption } from '../file-system.ts';
import { type NativePath, nativePathOfBytes, systemPath } from '../native-path.ts';
import { withParentOpen } from './no-follow.ts';

/**
 * What the path leads to; only `isSymlink` is about the path itself. A modification before 1970 is told as it is where links are
 * not followed, and as 0 where they are: clients know it so.
 */
export async function getMetadata(path: NativePath, options: LinkOption): Promise<FileMetadata> {
  if (!options.followSymlinks) return await metadataNoFollow(path);
  try {
    const own = await lstat(systemPath(path));
    const target = own.isSymbolicLink() ? await stat(systemPath(path)) : own;
    return followedMetadata(target, own.isSymbolicLink());
  } catch (error) {
    throw toFileError(error);
  }
}

/** The path of an existing file without links and dots. */
export async function canonicalize(path: NativePath): Promise<NativePath> {
  try {
    return nativePathOfBytes(await realpath(systemPath(path), { encoding: 'latin1' }));
  } catch (error) {
    throw toFileError(error);
  }
}

async function metadataNoFollow(path: NativePath): Promise<FileMetadata> {
  const stats = path === '/' ? await lstat('/') : await withParentOpen(path, statsOfNoLink);
  return metadataOf(stats, false);
}

async function statsOfNoLink(entry: NativePath): Promise<BigIntStats> {
  const stats = await lstat(systemPath(entry));
  if (stats.isSymbolicLink()) throw refused('path contains a symbolic link');
  return stats;
}

/** Callbacks, because agents ask for metadata all the time and promises of Node's own take a third longer. */
function lstat(path: string | Buffer): Promise<BigIntStats> {
  return new Promise((resolve, reject) => {
    lstatWithCallback(path, { bigint: true }, (error, stats) =>
      error === null ? resolve(stats) : reject(error),
    );
  });
}

function stat(path: string | Buffer): Promise<BigIntStats> {
  return new Promise((resolve, reject) => {
    statWithCallback(path, { bigint: true }, (error, stats) =>
      error === null ? resolve(stats) : reject(error),
    );
  });
}

/** The metadata of what a path leads to where links are followed; `isSymlink` when the path itself is one. */
export function followedMetadata(target: BigIntStats, isSymlink: boolean): FileMetadata {
  const metadata = metadataOf(target, isSymlink);
  return { ...metadata, modifiedAtMs: Math.max(0, metadata.modifiedAtMs) };
}

/** The metadata of a path without links. */
export function metadataOf(stats: BigIntStats, isSymlink: boolean): FileMetadata {
  return {
    isDirectory: stats.isDirectory(),
    isFile: stats.isFile(),
    isSymlink,
    size: Number(stats.size),
    createdAtMs: wholeMilliseconds(stats.birthtimeNs),
    modifiedAtMs: wholeMilliseconds(stats.mtimeNs),
  };
}

/** Rounds down, also before 1970. Times in nanoseconds are more than a number holds exactly. */
function wholeMilliseconds(nanoseconds: bigint): number {
  const rest = nanoseconds % NANOSECONDS_PER_MILLISECOND;
  const whole = Number((nanoseconds - rest) / NANOSECONDS_PER_MILLISECOND);
  return rest < 0n ? whole - 1 : whole;
}

const NANOSECONDS_PER_MILLISECOND = 1_000_000n;
