import { lstat, opendir, rmdir, unlink } from 'node:fs/promises';
import { Errno, errorCode, FileError, refused, systemError, toFileError } from '../errors.ts';
import type { LinkOption } from '../file-system.ts';
import { REMOVE_MAX_DEPTH, REMOVE_NAMES_PER_BATCH, TREE_CALL_CONCURRENCY } from '../limits.ts';
import { type NativePath, systemPath } from '../native-path.ts';
import { OpenDirectory, withParentOpen } from './no-follow.ts';

/**
 * Removes a file, a link itself, or a directory; with `recursive` also the contents of a directory. With `force` a missing path is
 * not an error. A recursive removal that fails has removed a part.
 */
export async function remove(
  path: NativePath,
  options: LinkOption & { readonly recursive: boolean; readonly force: boolean },
): Promise<void> {
  try {
    if (options.followSymlinks) await removeAt(path, options.recursive);
    else await removeNoFollow(path, options.recursive);
  } catch (error) {
    const failure = toFileError(error);
    if (options.force && failure instanceof FileError && failure.kind === 'notFound') return;
    throw failure;
  }
}

async function removeAt(path: NativePath, recursive: boolean): Promise<void> {
  const stats = await lstat(systemPath(path));
  if (!stats.isDirectory()) await unlink(systemPath(path));
  else if (recursive) await removeTree(await OpenDirectory.at(path), path, 1);
  else await rmdir(systemPath(path));
}

async function removeNoFollow(path: NativePath, recursive: boolean): Promise<void> {
  if (recursive) throw new FileError('failed', 'recursive no-follow removal is unsupported');
  await withParentOpen(path, async (entry) => {
    const stats = await lstat(systemPath(entry));
    if (stats.isSymbolicLink()) throw refused('path contains a symbolic link');
    await (stats.isDirectory() ? rmdir : unlink)(systemPath(entry));
  });
}

/**
 * Empties, closes and removes the directory at `path`. Everything in it is reached through the open directory, so that a link
 * inserted during the removal is not followed.
 */
async function removeTree(directory: OpenDirectory, path: NativePath, depth: number): Promise<void> {
  try {
    if (depth > REMOVE_MAX_DEPTH) throw systemError(Errno.ENAMETOOLONG);
    for (;;) {
      const names = await firstNames(directory);
      for (let start = 0; start < names.length; start += TREE_CALL_CONCURRENCY) {
        await removeEntries(directory, names.slice(start, start + TREE_CALL_CONCURRENCY), depth);
      }
      if (names.length < REMOVE_NAMES_PER_BATCH) break;
    }
  } finally {
    await directory.close();
  }
  await rmdir(systemPath(path));
}

/**
 * Removes entries of any type: files concurrently, then directories one after another, so that only one per level is open. All
 * attempts have settled when this returns, because the paths of entries become invalid when the directory is closed.
 */
async function removeEntries(
  directory: OpenDirectory,
  names: readonly string[],
  depth: number,
): Promise<void> {
  const attempts = await Promise.allSettled(names.map((name) => unlink(systemPath(directory.entry(name)))));
  for (const [index, attempt] of attempts.entries()) {
    if (attempt.status === 'fulfilled' || errorCode(attempt.reason) === 'ENOENT') continue;
    if (errorCode(attempt.reason) !== 'EISDIR') throw attempt.reason;
    await removeSubtree(directory, names[index]!, depth + 1);
  }
}

/** A subtree that another process has removed meanwhile is not an error. */
async function removeSubtree(parent: OpenDirectory, name: string, depth: number): Promise<void> {
  try {
    await removeTree(await parent.enter(name), parent.entry(name), depth);
  } catch (error) {
    if (errorCode(error) !== 'ENOENT') throw error;
  }
}

/**
 * Some names of a directory. They are collected before any is removed, because a listing may skip entries while others are removed.
 */
async function firstNames(directory: OpenDirectory): Promise<string[]> {
  const names: string[] = [];
  for await (const { name } of await opendir(systemPath(directory.path), NAMES_IN_BYTES)) {
    names.push((name as unknown as Buffer).toString('latin1'));
    if (names.length === REMOVE_NAMES_PER_BATCH) break;
  }
  return names;
}

/** Names as buffers: on a file system that reports no types, Node looks up each entry by its exact bytes. */
const NAMES_IN_BYTES = { encoding: 'buffer' as BufferEncoding, bufferSize: 256 };
