import { mkdir, stat } from 'node:fs/promises';
import { errorCode, FileError, toFileError } from '../errors.ts';
import type { LinkOption } from '../file-system.ts';
import { type NativePath, parentPath, systemPath } from '../native-path.ts';
import { descend, namesOf, type OpenDirectory, withParentOpen } from './no-follow.ts';

/** Creates a directory. With `recursive` it also creates the missing parents, and an existing directory is not an error. */
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

/** Goes up until a directory exists or can be created, then creates the others downwards. */
async function createWithParents(path: NativePath): Promise<void> {
  const missing: NativePath[] = [];
  let current = path;
  while (!(await makeUnlessParentMissing(current))) {
    missing.push(current);
    current = parentPath(current);
  }
  for (const directory of missing.reverse()) await makeOrFind(directory);
}

/** Returns false when the parent does not exist. */
async function makeUnlessParentMissing(path: NativePath): Promise<boolean> {
  try {
    await makeOrFind(path);
    return true;
  } catch (error) {
    if (errorCode(error) === 'ENOENT' && path !== '/') return false;
    throw error;
  }
}

/** Creates the directory. Any error is ignored if the directory exists. */
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
    // Another process has just created it, or something that is not a directory.
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
