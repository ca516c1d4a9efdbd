import { readlink, realpath } from 'node:fs/promises';
import { errorCode } from '../../../files/errors.ts';
import { MAX_LINKS_FOLLOWED } from '../../../files/limits.ts';
import {
  childPath,
  lastName,
  type NativePath,
  nativePathOfBytes,
  parentPath,
  systemPath,
} from '../../../files/native-path.ts';

/**
 * Returns where an entry created at `path` would be: the path with all links resolved, including dangling ones. Null when the system
 * cannot resolve it; then nothing can be created there either.
 */
export async function prospectivePath(path: NativePath): Promise<NativePath | null> {
  return await resolve(path, MAX_LINKS_FOLLOWED);
}

/** The same for an operation on the entry itself: does not follow a link at the end. */
export async function prospectiveEntry(path: NativePath): Promise<NativePath | null> {
  if (DOTS_AT_END.test(path)) return await prospectivePath(path);
  const directory = await prospectivePath(parentPath(path));
  return directory && entryOf(directory, lastName(path));
}

async function resolve(path: NativePath, linksLeft: number): Promise<NativePath | null> {
  try {
    return nativePathOfBytes(await realpath(systemPath(path), { encoding: 'latin1' }));
  } catch (error) {
    if (errorCode(error) !== 'ENOENT' || path === '/') return null;
  }
  const directory = await resolve(parentPath(path), linksLeft);
  if (directory === null || linksLeft === 0) return null;
  const link = await readlink(systemPath(path), 'latin1').catch(() => null);
  if (link === null) return entryOf(directory, lastName(path));
  const target = link.startsWith('/') ? link : `${directory}/${link}`;
  return await resolve(nativePathOfBytes(target), linksLeft - 1);
}

function entryOf(directory: NativePath, name: string): NativePath {
  if (name === '..') return parentPath(directory);
  return name === '.' || name === '' ? directory : childPath(directory, name);
}

const DOTS_AT_END = /(?:^|\/)\.{1,2}\/*$/;
