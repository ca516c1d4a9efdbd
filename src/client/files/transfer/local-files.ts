import type { Stats } from 'node:fs';
import { type FileHandle, lstat, opendir, open as openFile, stat } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ClientError, type ClientErrorKind } from '../../errors.ts';
import { FILE_BLOCK_BYTES } from '../../limits.ts';
import type { PathLike } from '../../paths.ts';

/** A file or directory of this machine. Names need not be UTF-8, so the path is bytes. */
export interface LocalPath {
  readonly bytes: Buffer;
  /** For people. */
  readonly text: string;
}

/** A path that a caller gave: relative to the working directory of this process, or a `file:` URI. */
export function localPath(path: PathLike): LocalPath {
  try {
    const text = typeof path !== 'string' || /^file:/i.test(path) ? fileURLToPath(path) : resolve(path);
    return pathOf(Buffer.from(text));
  } catch (cause) {
    throw new ClientError('invalidInput', `'${path}' is not a path of this machine`, { cause });
  }
}

/** The path of an entry of a directory. */
export function childOf(directory: LocalPath, name: Uint8Array): LocalPath {
  return pathOf(Buffer.concat([directory.bytes, SEPARATOR, name]));
}

/** The directory that a path is in. */
export function parentOf({ text }: LocalPath): LocalPath {
  return pathOf(Buffer.from(dirname(text)));
}

function pathOf(bytes: Buffer): LocalPath {
  return { bytes, text: bytes.toString() };
}

const SEPARATOR = Buffer.from('/');

/** An entry of a local directory. */
export interface LocalEntry {
  readonly name: Buffer;
  readonly path: LocalPath;
  readonly kind: 'file' | 'directory' | 'linkToFile' | 'linkToDirectory' | 'brokenLink' | 'other';
}

/** The entries of a local directory. */
export async function* localEntries(directory: LocalPath): AsyncGenerator<LocalEntry, void> {
  // The names are bytes with this encoding, though the types of Node say text.
  const entries = await onLocal('list', directory, () =>
    opendir(directory.bytes, { encoding: 'buffer' as never }),
  );
  for (;;) {
    const entry = await onLocal('list', directory, () => entries.read());
    if (entry === null) break;
    const name = entry.name as unknown as Buffer;
    const path = childOf(directory, name);
    yield { name, path, kind: await kindOf(path) };
  }
  await entries.close();
}

/** The type of the entry itself comes from lstat, because not every file system has it in its directories. */
async function kindOf(path: LocalPath): Promise<LocalEntry['kind']> {
  const own = await onLocal('read', path, () => lstat(path.bytes));
  if (!own.isSymbolicLink()) return own.isDirectory() ? 'directory' : own.isFile() ? 'file' : 'other';
  const target: Stats | null = await stat(path.bytes).catch(() => null);
  if (target === null) return 'brokenLink';
  return target.isDirectory() ? 'linkToDirectory' : target.isFile() ? 'linkToFile' : 'other';
}

/** Reads an open file in blocks. A block is valid until the next one is requested. */
export async function* localBlocks(path: LocalPath, file: FileHandle): AsyncGenerator<Buffer, void> {
  const block = Buffer.allocUnsafeSlow(FILE_BLOCK_BYTES);
  for (let position = 0; ; ) {
    const { bytesRead } = await onLocal('read', path, () => file.read(block, 0, block.length, position));
    if (bytesRead === 0) return;
    yield block.subarray(0, bytesRead);
    position += bytesRead;
  }
}

/** Opens a local file. */
export function openLocal(
  action: string,
  path: LocalPath,
  flags: number,
  mode?: number,
): Promise<FileHandle> {
  return onLocal(action, path, () => openFile(path.bytes, flags, mode));
}

/** Runs an operation on a local file. Its error is a ClientError that names the path. */
export async function onLocal<T>(action: string, path: LocalPath, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (!(error instanceof Error) || code === undefined) throw error;
    const kind = KINDS.get(code) ?? 'storage';
    throw new ClientError(kind, `cannot ${action} ${path.text} of this machine: ${error.message}`, {
      cause: error,
    });
  }
}

const KINDS: ReadonlyMap<string, ClientErrorKind> = new Map<string, ClientErrorKind>([
  ['ENOENT', 'notFound'],
  ['EACCES', 'permissionDenied'],
  ['EPERM', 'permissionDenied'],
  ['EROFS', 'permissionDenied'],
  ['EISDIR', 'isDirectory'],
  ['ENOTDIR', 'notDirectory'],
  ['EEXIST', 'exists'],
]);
