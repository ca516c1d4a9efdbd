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
 * Where something would come to lie that is made at `path`: the path without links, also behind links that lead to nothing yet.
 * Null when the system does not tell, and then it lets nobody make anything there either.
 */
export async function prospectivePath(path: NativePath): Promise<NativePath | null> {
  return await resolve(path, MAX_LINKS_FOLLOWED);
}

/** The same for what is done to the entry itself: a link at the end stands for itself. */
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
