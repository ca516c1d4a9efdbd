import { type BigIntStats, lstat as lstatWithCallback, stat as statWithCallback } from 'node:fs';
import { realpath } from 'node:fs/promises';
import { refused, toFileError } from '../errors.ts';
import type { FileMetadata, LinkOption } from '../file-system.ts';
import { type NativePath, nativePathOfBytes, systemPath } from '../native-path.ts';
import { withParentOpen } from './no-follow.ts';

/**
 * The metadata of the target of the path; only `isSymlink` concerns the path itself. A modification time before 1970 is reported as
 * 0, but as it is where links are not followed, like the reference does.
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

/** The real path of an existing file. */
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

/** Callbacks, because agents request metadata very often and the promises of `node:fs` take a third longer. */
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

/** The metadata of the target where links are followed. `isSymlink` says whether the path itself is a link. */
export function followedMetadata(target: BigIntStats, isSymlink: boolean): FileMetadata {
  const metadata = metadataOf(target, isSymlink);
  return { ...metadata, modifiedAtMs: Math.max(0, metadata.modifiedAtMs) };
}

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

/** Rounds down, also before 1970. A number cannot hold nanoseconds exactly. */
function wholeMilliseconds(nanoseconds: bigint): number {
  const rest = nanoseconds % NANOSECONDS_PER_MILLISECOND;
  const whole = Number((nanoseconds - rest) / NANOSECONDS_PER_MILLISECOND);
  return rest < 0n ? whole - 1 : whole;
}

const NANOSECONDS_PER_MILLISECOND = 1_000_000n;
