import { constants, type Stats } from 'node:fs';
import { access, type FileHandle, open, readlink, realpath, rename, stat, unlink } from 'node:fs/promises';
import { dirname } from 'node:path/posix';
import { Errno, errorCode, refused, systemError, toFileError } from '../errors.ts';
import type { NewAttributes, OpenFile, OpenOptions, ReplacementPart } from '../file-system.ts';
import { MAX_LINKS_FOLLOWED } from '../limits.ts';
import {
  childPath,
  lastName,
  type NativePath,
  nativePathOfBytes,
  parentPath,
  systemPath,
  textOfNativePath,
} from '../native-path.ts';
import { readAt, writeAt } from './positional-io.ts';
import { replaceIfUnchanged } from './replace-if-unchanged.ts';
import { ReplacementFile } from './replacement-part.ts';
import { setOpenAttributes } from './set-attributes.ts';
import { sweepTemporaries, temporaryName } from './temporary-files.ts';

/**
 * Opens a replacement of a file. Writes go to a temporary file in the same directory, which is renamed to the target on close.
 * Readers see the old file or the complete new one, also after a crash or a power failure.
 *
 * Links are followed: the target of a link is replaced, or created if it does not exist. The new file has the mode of the old one,
 * and its owner and group as far as this process may set them. It is a new inode, so hard links to the old file keep the old
 * content. ACLs and extended attributes are not copied. `attributes` replace the mode, and only the owner can read the temporary
 * file if they do. Without `durable` nothing is flushed to the disk, so that a power failure may lose the new content. With `ifSha256`
 * the close fails unless the old file has this content then.
 */
export async function openAtomicReplacement(
  path: NativePath,
  { attributes = {}, resumeKey, durable = true, ifSha256 }: Omit<OpenOptions, 'followSymlinks'> = {},
): Promise<OpenFile> {
  try {
    const resolved = await followLinks(path);
    const old = await statIfThere(resolved);
    if (old !== null) await checkReplaceable(path, resolved, old);
    else if (resolved.endsWith('/')) throw systemError(Errno.EISDIR);
    // The real directory stays the right one if a link in the path changes before the close.
    const directory = await realDirectory(resolved);
    await sweepTemporaries(directory);
    const target = childPath(directory, lastName(resolved));
    const part = resumeKey === undefined ? null : await ReplacementFile.open(target, resumeKey);
    const common = { attributes, durable, ifSha256, target, directory };
    if (part !== null) {
      if (old !== null) await changeOwner(part.handle, old);
      const { handle, path: temporary } = part;
      return new AtomicReplacement({ ...common, handle, temporary, part });
    }
    const temporary = childPath(directory, await temporaryName(lastName(resolved)));
    const handle = await createTemporary(temporary, old, attributes);
    return new AtomicReplacement({ ...common, handle, temporary, part: null });
  } catch (error) {
    throw toFileError(error);
  }
}

interface Replacement {
  readonly handle: FileHandle;
  readonly attributes: NewAttributes;
  readonly durable: boolean;
  readonly ifSha256: string | undefined;
  readonly temporary: NativePath;
  readonly target: NativePath;
  readonly directory: NativePath;
  readonly part: ReplacementFile | null;
}

class AtomicReplacement implements OpenFile {
  readonly #handle: FileHandle;
  readonly #attributes: NewAttributes;
  readonly #durable: boolean;
  readonly #ifSha256: string | undefined;
  readonly #temporary: NativePath;
  readonly #target: NativePath;
  readonly #directory: NativePath;
  readonly #part: ReplacementFile | null;
  #failure: unknown = null;

  constructor({ handle, attributes, durable, ifSha256, temporary, target, directory, part }: Replacement) {
    this.#handle = handle;
    this.#attributes = attributes;
    this.#durable = durable;
    this.#ifSha256 = ifSha256;
    this.#temporary = temporary;
    this.#target = target;
    this.#directory = directory;
    this.#part = part;
  }

  get part(): ReplacementPart | undefined {
    return this.#part === null ? undefined : { path: this.#part.path, size: this.#part.size };
  }

  /** Fails with EBADF: the file is open for writing only. */
  read(position: number, length: number, into?: Buffer): Promise<Buffer> {
    return readAt(this.#handle.fd, position, length, into);
  }

  /** A failed write makes the close fail, because a client that does not wait for responses sends the close anyway. */
  async write(position: number, bytes: Uint8Array): Promise<void> {
    try {
      await writeAt(this.#handle.fd, position, bytes);
    } catch (error) {
      this.#failure ??= error;
      throw error;
    }
  }

  async close(): Promise<void> {
    try {
      if (this.#failure !== null) throw this.#failure;
      await setOpenAttributes(this.#handle, this.#attributes);
      if (this.#durable) await this.#handle.sync();
      await this.#handle.close();
      const replace = () => rename(systemPath(this.#temporary), systemPath(this.#target));
      if (this.#ifSha256 === undefined) await replace();
      else await replaceIfUnchanged(this.#target, this.#ifSha256, replace);
      this.#part?.release();
    } catch (error) {
      await this.discard();
      throw toFileError(error);
    }
    if (this.#durable) await syncDirectory(this.#directory);
  }

  /**
   * If the temporary file cannot be removed, it stays. Its name identifies it, and a later sweep removes it. The part of a resumable
   * replacement is kept, unless a write to it failed: a disk that is full must not stay full.
   */
  async discard(): Promise<void> {
    const isKept = this.#part !== null && this.#failure === null && (await this.#part.hasContent());
    await this.#handle.close().catch(() => undefined);
    if (!isKept) await unlink(systemPath(this.#temporary)).catch(() => undefined);
    this.#part?.release();
  }
}

/** Resolves the links at the end of the path, whether or not the target exists. The system resolves links before the last name. */
async function followLinks(path: NativePath): Promise<NativePath> {
  let current = path;
  for (let followed = 0; followed <= MAX_LINKS_FOLLOWED; followed++) {
    const link = await readLinkIfOne(current);
    if (link === null) return current;
    // The names are only joined: the meaning of `..` depends on the links before it.
    current = nativePathOfBytes(link.startsWith('/') ? link : `${dirname(current)}/${link}`);
  }
  throw systemError(Errno.ELOOP);
}

async function readLinkIfOne(path: NativePath): Promise<string | null> {
  try {
    return await readlink(systemPath(path), 'latin1');
  } catch (error) {
    const code = errorCode(error);
    if (code === 'EINVAL' || code === 'ENOENT') return null;
    throw error;
  }
}

async function statIfThere(path: NativePath): Promise<Stats | null> {
  try {
    return await stat(systemPath(path));
  } catch (error) {
    if (errorCode(error) === 'ENOENT') return null;
    throw error;
  }
}

/** A file that is not writable is not replaced either, although the owner of its directory may do so. */
async function checkReplaceable(path: NativePath, resolved: NativePath, old: Stats): Promise<void> {
  if (old.isDirectory()) throw systemError(Errno.EISDIR);
  if (!old.isFile()) throw refused(`path \`${textOfNativePath(path)}\` is not a file`);
  await access(systemPath(resolved), constants.W_OK);
}

async function realDirectory(path: NativePath): Promise<NativePath> {
  return nativePathOfBytes(await realpath(systemPath(parentPath(path)), 'latin1'));
}

async function createTemporary(
  temporary: NativePath,
  old: Stats | null,
  { mode }: NewAttributes,
): Promise<FileHandle> {
  const created = old === null && mode === undefined ? NEW_FILE_MODE : PRIVATE_MODE;
  const handle = await open(systemPath(temporary), CREATE_NEW, created);
  try {
    if (old !== null) await (mode === undefined ? copyOwnership(handle, old) : changeOwner(handle, old));
    return handle;
  } catch (error) {
    await handle.close();
    await unlink(systemPath(temporary)).catch(() => undefined);
    throw error;
  }
}

/** Gives the new file the owner, group and mode of the old one. Omits permissions that would apply to another owner or group. */
async function copyOwnership(handle: FileHandle, old: Stats): Promise<void> {
  await changeOwner(handle, old);
  const made = await handle.stat();
  let mode = old.mode & ALL_BITS;
  if (made.uid !== old.uid || made.gid !== old.gid) mode &= PERMISSION_BITS;
  if (made.gid !== old.gid) mode &= ~GROUP_BITS | ((mode & OTHER_BITS) << 3);
  // Some file systems have a single mode and refuse chmod.
  if ((made.mode & ALL_BITS) !== mode) await handle.chmod(mode);
}

async function changeOwner(handle: FileHandle, old: Stats): Promise<void> {
  const { uid, gid } = await handle.stat();
  if (uid === old.uid && gid === old.gid) return;
  try {
    await handle.chown(old.uid, old.gid);
  } catch {
    await handle.chown(uid, old.gid).catch(() => undefined);
  }
}

/**
 * Makes the rename survive a power failure. Errors are ignored because the replacement has already taken effect: some file systems
 * cannot sync directories, and some directories are writable but not readable.
 */
async function syncDirectory(directory: NativePath): Promise<void> {
  try {
    const handle = await open(systemPath(directory), constants.O_RDONLY | constants.O_DIRECTORY);
    await handle.sync().finally(() => handle.close());
  } catch {}
}

const CREATE_NEW = constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL;
const NEW_FILE_MODE = 0o666;
const PRIVATE_MODE = 0o600;
const ALL_BITS = 0o7777;
const PERMISSION_BITS = 0o777;
const GROUP_BITS = 0o070;
const OTHER_BITS = 0o007;
