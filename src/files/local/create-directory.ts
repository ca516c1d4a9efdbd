import { mkdir, stat } from 'node:fs/promises';
import { errorCode, FileError, toFileError } from '../errors.ts';
import type { LinkOption } from '../file-system.ts';
import { type NativePath, parentPath, systemPath } from '../native-path.ts';
import { descend, namesOf, type OpenDirectory, withParentOpen } from './no-follow.ts';

/** Makes a directory; with `recursive` also those above it, and one that exists is no error. */
export async function createDirectory(
  path: NativePath,
  options: LinkOption & { readonly recursive: boolean },
): Promise<void> {
  try {
    if (options.followSymlinks) await (options.recursive ? createWithParents(path) : make(path));
    else await (options.recursive ? createWithParentsNoFollow(path) : createNoFollow(path));
  } catch (error) {
    throw toFileError(error);
  }
}

/** Goes up until a directory can be made or exists, then down again. */
async function createWithParents(path: NativePath): Promise<void> {
  const missing: NativePath[] = [];
  let current = path;
  while (!(await makeUnlessParentMissing(current))) {
    missing.push(current);
    current = parentPath(current);
  }
  for (const directory of missing.reverse()) await makeOrFind(directory);
}

/** False when the directory cannot be made because the one above it does not exist. */
async function makeUnlessParentMissing(path: NativePath): Promise<boolean> {
  try {
    await makeOrFind(path);
    return true;
  } catch (error) {
    if (errorCode(error) === 'ENOENT' && path !== '/') return false;
    throw error;
  }
}

/** Makes the directory. Whatever the system says against that, a directory that is there is enough. */
async function makeOrFind(path: NativePath): Promise<void> {
  try {
    await make(path);
  } catch (error) {
    if (errorCode(error) === 'ENOENT' || !(await isDirectory(path))) throw error;
  }
}

async function createNoFollow(path: NativePath): Promise<void> {
  if (path === '/') throw new FileError('failed', 'directory already exists');
  await withParentOpen(path, make);
}

async function createWithParentsNoFollow(path: NativePath): Promise<void> {
  const directory = await descend(namesOf(path), enterOrMake);
  await directory.close();
}

async function enterOrMake(parent: OpenDirectory, name: string): Promise<OpenDirectory> {
  try {
    return await parent.enter(name);
  } catch (error) {
    if (errorCode(error) !== 'ENOENT') throw error;
  }
  try {
    await make(parent.entry(name));
  } catch (error) {
    // Somebody else has just made it, or something else that cannot be entered.
    if (errorCode(error) !== 'EEXIST') throw error;
  }
  return await parent.enter(name);
}

async function make(path: NativePath): Promise<void> {
  await mkdir(systemPath(path));
}

async function isDirectory(path: NativePath): Promise<boolean> {
  try {
    return (await stat(systemPath(path))).isDirectory();
  } catch {
    return false;
  }
}
