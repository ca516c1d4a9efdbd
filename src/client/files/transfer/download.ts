import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { type FileHandle, mkdir, realpath, rename, stat, unlink } from 'node:fs/promises';
import { forEachBounded } from '../../../base/for-each-bounded.ts';
import { randomHex } from '../../../base/random-hex.ts';
import { ClientError } from '../../errors.ts';
import { TRANSFER_CONCURRENCY } from '../../limits.ts';
import { toNativePath } from '../../paths.ts';
import { withPath } from '../file-errors.ts';
import { walkTree } from '../walk-tree.ts';
import { childOf, type LocalPath, onLocal, openLocal, parentOf } from './local-files.ts';
import type { Transfer } from './transfer.ts';

/** Downloads a file of the executor, or a directory with everything in it, to a local path. */
export async function download(transfer: Transfer, source: string, target: LocalPath): Promise<void> {
  const { fileSystem } = transfer.files;
  const metadata = await withPath('download', source, () => fileSystem.getMetadata(source, transfer.call));
  if (metadata.isDirectory) {
    await forEachBounded(filesOf(transfer, source, target), TRANSFER_CONCURRENCY, ({ uri, path }) =>
      downloadFile(transfer, uri, path),
    );
  } else if (metadata.isFile) {
    // Like a write, it creates missing parent directories.
    await onLocal('create', parentOf(target), () => mkdir(parentOf(target).bytes, { recursive: true }));
    await downloadFile(transfer, source, target);
  } else {
    throw new ClientError('invalidInput', `${toNativePath(source)} is neither a file nor a directory`);
  }
}

interface Download {
  readonly uri: string;
  readonly path: LocalPath;
}

/** The files of a tree. Creates each local directory before it returns the files in it. */
async function* filesOf(
  transfer: Transfer,
  source: string,
  target: LocalPath,
): AsyncGenerator<Download, void> {
  const { fileSystem } = transfer.files;
  // A link at the end is followed, as for a file. A walk would not enter it.
  const { isSymlink } = await fileSystem.getMetadata(source, transfer.call);
  const uri = isSymlink ? await fileSystem.canonicalize(source, transfer.call) : source;
  const pending: Download[] = [{ uri, path: target }];
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    const directory = next;
    transfer.throwIfAborted();
    await onLocal('create', directory.path, () => mkdir(directory.path.bytes, { recursive: true }));
    transfer.addDirectory();
    const { files, directories } = await entriesOf(transfer, directory);
    pending.push(...directories);
    yield* files;
  }
}

/**
 * The files and directories in a directory. The server lists exact names in a walk, but without links, and links only in a listing,
 * so it is asked for both.
 */
async function entriesOf(
  transfer: Transfer,
  { uri, path }: Download,
): Promise<{ readonly files: Download[]; readonly directories: Download[] }> {
  const { fileSystem } = transfer.files;
  const files: Download[] = [];
  const directories: Download[] = [];
  const walked = new Set<string>();
  for await (const entry of walkTree(fileSystem, uri, { ...transfer.call, maxDepth: 1 })) {
    const name = nameOf(entry.uri, uri);
    walked.add(name.toString());
    (entry.kind === 'file' ? files : directories).push({ uri: entry.uri, path: childOf(path, name) });
  }
  const listed = await withPath('list', uri, () => fileSystem.readDirectory(uri, transfer.call));
  for (const { fileName, isFile, isDirectory } of listed) {
    if (walked.has(fileName)) continue;
    const linkUri = `${uri.replace(/\/$/, '')}/${encodeURIComponent(fileName)}`;
    const shown = toNativePath(linkUri);
    if (isDirectory) transfer.skip(shown, 'a symbolic link to a directory');
    else if (!isFile) transfer.skip(shown, 'neither a file nor a directory');
    else if (fileName.includes('\ufffd'))
      transfer.skip(shown, 'a symbolic link with a name that is not UTF-8');
    else {
      transfer.followLink(shown);
      files.push({ uri: linkUri, path: childOf(path, nameOf(linkUri, uri)) });
    }
  }
  return { files, directories };
}

/** The name of an entry in bytes. A server must not be able to choose a place outside the target. */
function nameOf(uri: string, directory: string): Buffer {
  const start = `${directory.replace(/\/$/, '')}/`;
  const segment = uri.startsWith(start) ? uri.slice(start.length) : '';
  const bytes = segment.replace(/%([0-9A-Fa-f]{2})/g, (_, digits: string) =>
    String.fromCharCode(parseInt(digits, 16)),
  );
  const name = Buffer.from(bytes, 'latin1');
  const isName = !/[^\u0000-\u00ff]/.test(bytes) && !/[/\0]/.test(bytes) && !['', '.', '..'].includes(bytes);
  if (isName && !(process.platform === 'win32' && /[\\:]/.test(bytes))) return name;
  throw new ClientError(
    'protocol',
    `invalid message from the server: ${uri} is not an entry of ${directory}`,
  );
}

async function downloadFile(transfer: Transfer, uri: string, target: LocalPath): Promise<void> {
  const { fileSystem } = transfer.files;
  await withPath('download', uri, async () => {
    const { size } = await fileSystem.getMetadata(uri, transfer.call);
    await transfer.file(toNativePath(uri), size, async (onBytes) => {
      await replaceLocal(target, async (file, path) => {
        const hash = createHash('sha256');
        for await (const block of fileSystem.readFileStream(uri, transfer.call)) {
          transfer.throwIfAborted();
          hash.update(block);
          // Unlike `write`, it continues where a disk that gets full has taken only a part.
          await onLocal('write', path, () => file.writeFile(block));
          onBytes(block.length);
        }
        await transfer.verify(uri, toNativePath(uri), hash.digest('hex'));
      });
    });
  });
}

/**
 * Writes a local file beside the old one and renames it at the end. Keeps the mode of the old one, and a link that leads to it. A
 * failure keeps the old file.
 */
async function replaceLocal(
  target: LocalPath,
  write: (file: FileHandle, path: LocalPath) => Promise<void>,
): Promise<void> {
  const real = await realpath(target.bytes, { encoding: 'buffer' }).catch(() => target.bytes);
  const old = await stat(real).catch(() => null);
  if (old?.isDirectory()) {
    throw new ClientError('isDirectory', `cannot write ${target.text} of this machine: it is a directory`, {
      hint: 'name the file in it',
    });
  }
  const bytes = Buffer.concat([real, Buffer.from(`.${randomHex().slice(0, 12)}.part`)]);
  const temporary: LocalPath = { bytes, text: bytes.toString() };
  const file = await openLocal(
    'create',
    temporary,
    constants.O_WRONLY | constants.O_CREAT | constants.O_EXCL,
    0o666,
  );
  try {
    try {
      await write(file, temporary);
      if (old !== null) await onLocal('write', temporary, () => file.chmod(old.mode & 0o7777));
      await onLocal('write', temporary, () => file.sync());
    } finally {
      await file.close();
    }
    await onLocal('replace', target, () => rename(temporary.bytes, real));
  } catch (error) {
    await unlink(temporary.bytes).catch(() => {});
    throw error;
  }
}
