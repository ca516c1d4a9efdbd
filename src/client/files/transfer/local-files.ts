import { type FileHandle, opendir, open as openFile } from 'node:fs/promises';
import { basename, dirname, resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { ClientError } from '../../errors.ts';
import { FILE_BLOCK_BYTES } from '../../limits.ts';
import { emptyPath, type PathLike } from '../../paths.ts';
import { systemReason } from '../../system-error.ts';
import { isDiskFull } from '../file-errors.ts';

/** A file or directory of this machine. Names need not be UTF-8, so the path is bytes. */
export interface LocalPath {
  readonly bytes: Buffer;
  /** For people. */
  readonly text: string;
}

/** A path that a caller gave: relative to the working directory of this process, or a `file:` URI. */
export function localPath(path: PathLike): LocalPath {
  if (path === '') throw emptyPath();
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
export function parentOf({ bytes }: LocalPath): LocalPath {
  return pathOf(Buffer.from(dirname(bytes.toString('latin1')), 'latin1'));
}

/** The last name of a path. */
export function nameOfPath({ bytes }: LocalPath): Buffer {
  return Buffer.from(basename(bytes.toString('latin1')), 'latin1');
}

function pathOf(bytes: Buffer): LocalPath {
  return { bytes, text: bytes.toString() };
}

const SEPARATOR = Buffer.from('/');

/** The names in a local directory. */
export async function* localNames(directory: LocalPath): AsyncGenerator<Buffer, void> {
  // The names are bytes with this encoding, though the types of Node say text.
  const entries = await onLocal('list', directory, () =>
    opendir(directory.bytes, { encoding: 'buffer' as never }),
  );
  try {
    for (;;) {
      const entry = await onLocal('list', directory, () => entries.read());
      if (entry === null) return;
      yield entry.name as unknown as Buffer;
    }
  } finally {
    await entries.close();
  }
}

/** Reads an open file in blocks, one of them ahead. A block is valid until the one after the next is requested. */
export async function* localBlocks(
  path: LocalPath,
  file: FileHandle,
  offset: number,
): AsyncGenerator<Buffer, void> {
  const read = (into: Buffer, position: number) =>
    onLocal('read', path, () => file.read(into, 0, into.length, position));
  const newBlock = () => Buffer.allocUnsafeSlow(FILE_BLOCK_BYTES);
  let [block, ahead, before] = [newBlock(), newBlock(), newBlock()];
  let reading = read(block, offset);
  try {
    for (let position = offset; ; ) {
      const { bytesRead } = await reading;
      if (bytesRead === 0) return;
      position += bytesRead;
      reading = read(ahead, position);
      // It is awaited later, or not at all when the caller stops here.
      reading.catch(() => {});
      yield block.subarray(0, bytesRead);
      [block, ahead, before] = [ahead, before, block];
    }
  } finally {
    // The caller closes the file next.
    await reading.catch(() => {});
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

/** Runs an operation on a local file. Its error is a ClientError of kind `storage` that names the path. */
export async function onLocal<T>(action: string, path: LocalPath, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof Error) || (error as NodeJS.ErrnoException).code === undefined) throw error;
    throw new ClientError(
      'storage',
      `cannot ${action} ${path.text} of this machine: ${systemReason(error)}`,
      {
        cause: error,
        hint: isDiskFull(error) ? 'free some space' : undefined,
      },
    );
  }
}

/** Whether a local file could not be read or written for a reason that need not concern others, unlike a full disk. */
export function concernsOneFile(error: ClientError): boolean {
  const { code } = (error.cause ?? {}) as NodeJS.ErrnoException;
  return error.kind === 'storage' && ONE_FILE.has(code ?? '');
}

const ONE_FILE: ReadonlySet<string> = new Set([
  'ENOENT',
  'EACCES',
  'EPERM',
  'EROFS',
  'EISDIR',
  'ENOTDIR',
  'EEXIST',
  'ELOOP',
  'ENAMETOOLONG',
  // The path is a socket, or a device that is not there.
  'ENXIO',
]);
