import { constants, type Stats } from 'node:fs';
import {
  copyFile as cloneFile,
  type FileHandle,
  lstat,
  open,
  readlink,
  realpath,
  symlink,
} from 'node:fs/promises';
import { forEachBounded } from '../../base/for-each-bounded.ts';
import { refused, toFileError } from '../errors.ts';
import { CLONE_MIN_BYTES, COPY_BLOCK_BYTES, TREE_CALL_CONCURRENCY } from '../limits.ts';
import {
  childPath,
  isWithin,
  lastName,
  type NativePath,
  nativePathOfBytes,
  parentPath,
  systemPath,
} from '../native-path.ts';
import { createDirectory } from './create-directory.ts';
import { directoryBatches } from './directory-listing.ts';

/**
 * Copies a file with its permissions over any file at the destination, a link as a link, or with `recursive` a directory into the
 * destination, which may exist. A recursive copy stops at the first error and leaves what it copied.
 */
export async function copy(
  source: NativePath,
  destination: NativePath,
  options: { readonly recursive: boolean },
): Promise<void> {
  try {
    const stats = await lstat(systemPath(source));
    if (stats.isDirectory()) {
      if (!options.recursive) {
        throw refused('fs/copy requires recursive: true when sourcePath is a directory');
      }
      await copyTree(source, destination);
    } else if (!(await copyEntry(source, stats, destination))) {
      throw refused('fs/copy only supports regular files, directories, and symlinks');
    }
  } catch (error) {
    throw toFileError(error);
  }
}

/** Copies an entry that is not a directory. Returns false for a type that cannot be copied. */
async function copyEntry(source: NativePath, stats: Stats, destination: NativePath): Promise<boolean> {
  if (stats.isFile()) await copyFile(source, stats, destination);
  else if (stats.isSymbolicLink()) await copyLink(source, destination);
  else return false;
  return true;
}

async function copyLink(source: NativePath, destination: NativePath): Promise<void> {
  const target = await readlink(systemPath(source), { encoding: 'buffer' });
  await symlink(target, systemPath(destination));
}

/**
 * Copies one directory after another. Modes of directories are not copied, so that the content of a read-only directory can be
 * copied.
 */
async function copyTree(source: NativePath, destination: NativePath): Promise<void> {
  const realSource = await realPathOf(source);
  await refuseWithin(realSource, destination);
  const pending = [{ source, destination }];
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    const { source: from, destination: to } = next;
    await createDirectory(to, { recursive: true, followSymlinks: true });
    // A link in an existing destination may lead back into the source, which would then grow while it is copied.
    await refuseWithin(realSource, to);
    for await (const batch of directoryBatches(from)) {
      await forEachBounded(batch, TREE_CALL_CONCURRENCY, async ({ name }) => {
        const entry = childPath(from, name);
        const stats = await lstat(systemPath(entry));
        if (stats.isDirectory()) pending.push({ source: entry, destination: childPath(to, name) });
        else await copyEntry(entry, stats, childPath(to, name));
      });
    }
  }
}

async function refuseWithin(realSource: NativePath, destination: NativePath): Promise<void> {
  if (isWithin(await prospectiveRealPath(destination), realSource)) {
    throw refused('fs/copy cannot copy a directory to itself or one of its descendants');
  }
}

/** The real path of the existing part of the path, followed by the rest. Creating the rest reports any error. */
async function prospectiveRealPath(path: NativePath): Promise<NativePath> {
  const missing: string[] = [];
  for (let existing = path; ; existing = parentPath(existing)) {
    try {
      return missing.reduceRight(childPath, await realPathOf(existing));
    } catch (error) {
      if (existing === '/') throw error;
      missing.push(lastName(existing));
    }
  }
}

async function realPathOf(path: NativePath): Promise<NativePath> {
  return nativePathOfBytes(await realpath(systemPath(path), { encoding: 'latin1' }));
}

async function copyFile(source: NativePath, stats: Stats, destination: NativePath): Promise<void> {
  if (stats.size >= CLONE_MIN_BYTES && (await tryClone(source, destination))) return;
  const from = await open(systemPath(source), READ);
  try {
    const to = await open(systemPath(destination), WRITE, stats.mode & PERMISSIONS);
    try {
      await overwrite(from, to);
    } finally {
      await to.close();
    }
  } finally {
    await from.close();
  }
}

/** Clones the file, so that both share blocks. Only some file systems support it. */
async function tryClone(source: NativePath, destination: NativePath): Promise<boolean> {
  try {
    // Without FORCE, libuv falls back to copying as many bytes as the file had, which never ends if the file has become shorter.
    // Without EXCL it removes a destination that it cannot write.
    const { COPYFILE_FICLONE_FORCE, COPYFILE_EXCL } = constants;
    await cloneFile(systemPath(source), systemPath(destination), COPYFILE_FICLONE_FORCE | COPYFILE_EXCL);
    return true;
  } catch {
    return false;
  }
}

/** Truncates only after it is certain that the destination is not the source and that its mode can be set. */
async function overwrite(from: FileHandle, to: FileHandle): Promise<void> {
  const [source, destination] = await Promise.all([from.stat({ bigint: true }), to.stat({ bigint: true })]);
  if (source.dev === destination.dev && source.ino === destination.ino) return;
  if (destination.isFile()) {
    const mode = source.mode & BigInt(PERMISSIONS);
    if ((destination.mode & BigInt(PERMISSIONS)) !== mode) await to.chmod(Number(mode));
    if (destination.size > 0n) await to.truncate(0);
  }
  await copyBytes(from, to, source.size);
}

/** Copies up to the end of the file, whatever its size: files that the kernel generates report 0. */
async function copyBytes(from: FileHandle, to: FileHandle, size: bigint): Promise<void> {
  const expected = size < COPY_BLOCK_BYTES ? Number(size) : 0;
  const buffer = Buffer.allocUnsafe(expected > 0 ? expected + 1 : COPY_BLOCK_BYTES);
  for (;;) {
    const { bytesRead } = await from.read(buffer, 0, buffer.length, null);
    if (bytesRead === 0) return;
    for (let written = 0; written < bytesRead; ) {
      written += (await to.write(buffer, written, bytesRead - written, null)).bytesWritten;
    }
    if (bytesRead === expected) return;
  }
}

// O_NONBLOCK so that a FIFO never blocks. As destination without a reader it is an error; as source it can only be one that has
// just replaced a file.
const { O_RDONLY, O_WRONLY, O_CREAT, O_NONBLOCK } = constants;
const READ = O_RDONLY | O_NONBLOCK;
const WRITE = O_WRONLY | O_CREAT | O_NONBLOCK;
const PERMISSIONS = 0o7777;
