import { constants } from 'node:fs';
import { access, type FileHandle, open } from 'node:fs/promises';
import { FileError, refused, toFileError } from '../errors.ts';
import { type NativePath, nativePathOfBytes, systemPath } from '../native-path.ts';

/**
 * An open directory whose entries are reached through its descriptor. Renaming a directory above it, or replacing it by a link, has
 * no effect on operations through it. Its owner closes it.
 */
export class OpenDirectory {
  readonly #handle: FileHandle;

  private constructor(handle: FileHandle) {
    this.#handle = handle;
  }

  /** Opens the directory at `path`. Follows links before the last name; a link as the last name fails with ENOTDIR. */
  static async at(path: NativePath): Promise<OpenDirectory> {
    await requireProc();
    return await OpenDirectory.#open(path);
  }

  static async #open(path: NativePath): Promise<OpenDirectory> {
    const flags = constants.O_DIRECTORY | constants.O_NOFOLLOW | O_PATH;
    return new OpenDirectory(await open(systemPath(path), flags));
  }

  /** A path to the directory, valid while it is open. */
  get path(): NativePath {
    return nativePathOfBytes(`/proc/self/fd/${this.#handle.fd}`);
  }

  /** A path to an entry, valid while the directory is open. The entry itself may be a link. */
  entry(name: string): NativePath {
    return nativePathOfBytes(`${this.path}/${name}`);
  }

  /** Opens a subdirectory; a link fails with ENOTDIR. */
  async enter(name: string): Promise<OpenDirectory> {
    return await OpenDirectory.#open(this.entry(name));
  }

  async close(): Promise<void> {
    await this.#handle.close();
  }
}

/**
 * Runs `use` on the last entry of a path while its parent directory is open. A link before the last name is an error, and none can
 * be inserted in the meantime. `use` has to handle a link as the last name.
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

/** Runs `use` on a directory while it is open. A link in its path is an error, and none can be inserted in the meantime. */
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

/** Descends from the root by one `step` per name and returns the last directory. Closes those in between. */
export async function descend(
  names: readonly string[],
  step: (directory: OpenDirectory, name: string) => Promise<OpenDirectory>,
): Promise<OpenDirectory> {
  let current = await OpenDirectory.at(nativePathOfBytes('/'));
  for (const name of names) {
    const directory = current;
    try {
      current = await step(directory, name);
    } finally {
      await directory.close();
    }
  }
  return current;
}

/** The names of a path, from the root on. */
export function namesOf(path: NativePath): string[] {
  return path.split('/').filter((name) => name !== '');
}

/**
 * A descriptor that only identifies a file (open(2)): it needs no read permission on the directory. Node has no constant for it.
 */
export const O_PATH = 0o10000000;

/** Without /proc no entry can be reached through a descriptor. That must not be reported as a missing file. */
export async function requireProc(): Promise<void> {
  try {
    await access('/proc/self/fd');
  } catch {
    throw new FileError('failed', 'operations without following links need /proc, which is not mounted');
  }
}
