import { constants } from 'node:fs';
import { access, type FileHandle, open } from 'node:fs/promises';
import { FileError, refused, toFileError } from '../errors.ts';
import { type NativePath, nativePathOfBytes, systemPath } from '../native-path.ts';

/**
 * An open directory whose entries are reached through its descriptor. Renaming a directory above it, or putting a link in its
 * place, changes nothing for whoever holds it. Its owner closes it.
 */
export class OpenDirectory {
  readonly #handle: FileHandle;

  private constructor(handle: FileHandle) {
    this.#handle = handle;
  }

  /** Holds the directory at `path`, links before its last name followed; a link itself is not a directory (ENOTDIR). */
  static async at(path: NativePath): Promise<OpenDirectory> {
    await requireProc();
    return await OpenDirectory.#open(path);
  }

  static async #open(path: NativePath): Promise<OpenDirectory> {
    const flags = constants.O_DIRECTORY | constants.O_NOFOLLOW | O_PATH;
    return new OpenDirectory(await open(systemPath(path), flags));
  }

  /** The directory as a path, good while it is held. */
  get path(): NativePath {
    return nativePathOfBytes(`/proc/self/fd/${this.#handle.fd}`);
  }

  /** The entry `name` as a path, good while the directory is held. The entry itself may be a link. */
  entry(name: string): NativePath {
    return nativePathOfBytes(`${this.path}/${name}`);
  }

  /** Holds a directory in this one; a link is not a directory (ENOTDIR). */
  async enter(name: string): Promise<OpenDirectory> {
    return await OpenDirectory.#open(this.entry(name));
  }

  async close(): Promise<void> {
    await this.#handle.close();
  }
}

/**
 * Runs `use` on the last entry of a path while the directory that holds it is held. A link before the last name is an error, and
 * nobody can put one there in the meantime; what to do about a link at the end is for `use`.
 */
export async function withParentOpen<T>(
  path: NativePath,
  use: (entry: NativePath) => Promise<T>,
): Promise<T> {
  const names = namesOf(path);
  const last = names.pop();
  if (last === undefined) throw refused('path must name an entry');
  try {
    const parent = await descend(names, (directory, name) => directory.enter(name));
    try {
      return await use(parent.entry(last));
    } finally {
      await parent.close();
    }
  } catch (error) {
    throw toFileError(error);
  }
}

/** Runs `use` on a directory while it is held. A link in its path is an error, and nobody can put one there in the meantime. */
export async function withDirectoryOpen<T>(
  path: NativePath,
  use: (directory: NativePath) => Promise<T>,
): Promise<T> {
  try {
    const directory = await descend(namesOf(path), (above, name) => above.enter(name));
    try {
      return await use(directory.path);
    } finally {
      await directory.close();
    }
  } catch (error) {
    throw toFileError(error);
  }
}

/** Goes down from the root by one `step` for each name and returns the directory it ends in; those on the way are closed. */
export async function descend(
  names: readonly string[],
  step: (directory: OpenDirectory, name: string) => Promise<OpenDirectory>,
): Promise<OpenDirectory> {
  let held = await OpenDirectory.at(nativePathOfBytes('/'));
  for (const name of names) {
    const directory = held;
    try {
      held = await step(directory, name);
    } finally {
      await directory.close();
    }
  }
  return held;
}

/** The names a path is made of, from the root on. */
export function namesOf(path: NativePath): string[] {
  return path.split('/').filter((name) => name !== '');
}

/** Linux's flag for a descriptor that only names a place: it needs no right to read the directory. Node has no constant for it. */
const O_PATH = 0o10000000;

/** Where /proc is missing nothing can be found through a descriptor, and that must not pass for "no such file". */
async function requireProc(): Promise<void> {
  try {
    await access('/proc/self/fd');
  } catch {
    throw new FileError('failed', 'directories cannot be held without /proc');
  }
}
