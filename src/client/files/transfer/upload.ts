import { createHash } from 'node:crypto';
import { constants } from 'node:fs';
import { stat } from 'node:fs/promises';
import { forEachBounded } from '../../../base/for-each-bounded.ts';
import { randomHex } from '../../../base/random-hex.ts';
import { ClientError } from '../../errors.ts';
import { TRANSFER_CONCURRENCY } from '../../limits.ts';
import { failedWith, withPath } from '../file-errors.ts';
import { parentUri } from '../files.ts';
import { type LocalPath, localBlocks, localEntries, onLocal, openLocal } from './local-files.ts';
import type { Transfer } from './transfer.ts';

/** Uploads a local file, or a directory with everything in it, to a path on the executor. */
export async function upload(transfer: Transfer, source: LocalPath, target: string): Promise<void> {
  const stats = await onLocal('read', source, () => stat(source.bytes));
  if (stats.isDirectory()) await uploadTree(transfer, source, target);
  else if (stats.isFile()) await uploadOne(transfer, source, target);
  else
    throw new ClientError('invalidInput', `${source.text} of this machine is neither a file nor a directory`);
}

/** Creates missing parent directories, like a write. */
async function uploadOne(transfer: Transfer, source: LocalPath, target: string): Promise<void> {
  const { fileSystem } = transfer.files;
  const parent = parentUri(target);
  const isMissing = await fileSystem.getMetadata(parent, transfer.call).then(
    () => false,
    (error: unknown) => failedWith(error, 'notFound'),
  );
  if (isMissing) {
    await withPath('create the directory', parent, () =>
      fileSystem.createDirectory(parent, { ...transfer.call, recursive: true }),
    );
  }
  await uploadFile(transfer, new Replacer(transfer), source, target);
}

async function uploadTree(transfer: Transfer, source: LocalPath, target: string): Promise<void> {
  const replacer = new Replacer(transfer);
  await forEachBounded(filesOf(transfer, source, target), TRANSFER_CONCURRENCY, ({ path, uri }) =>
    uploadFile(transfer, replacer, path, uri),
  );
}

interface Upload {
  readonly path: LocalPath;
  readonly uri: string;
}

/** The files of a tree. Creates each directory on the executor before it returns the files in it. */
async function* filesOf(transfer: Transfer, source: LocalPath, target: string): AsyncGenerator<Upload, void> {
  const pending: Upload[] = [{ path: source, uri: target }];
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    const { path: directory, uri: directoryUri } = next;
    transfer.throwIfAborted();
    await withPath('create the directory', directoryUri, () =>
      transfer.files.fileSystem.createDirectory(directoryUri, { ...transfer.call, recursive: true }),
    );
    transfer.addDirectory();
    for await (const { name, path, kind } of localEntries(directory)) {
      const uri = `${directoryUri.replace(/\/$/, '')}/${escapeName(name)}`;
      if (kind === 'linkToFile') transfer.followLink(path.text);
      if (kind === 'directory') pending.push({ path, uri });
      else if (kind === 'file' || kind === 'linkToFile') yield { path, uri };
      else transfer.skip(path.text, SKIPPED[kind]);
    }
  }
}

const SKIPPED = {
  linkToDirectory: 'a symbolic link to a directory',
  brokenLink: 'a symbolic link that leads nowhere',
  other: 'neither a file nor a directory',
};

async function uploadFile(
  transfer: Transfer,
  replacer: Replacer,
  path: LocalPath,
  uri: string,
): Promise<void> {
  // Opening a FIFO that replaced the file meanwhile does not wait for its writer.
  const file = await openLocal('read', path, constants.O_RDONLY | constants.O_NONBLOCK);
  try {
    const { size } = await onLocal('read', path, () => file.stat());
    await transfer.file(path.text, size, async (onBytes) => {
      const hash = createHash('sha256');
      const content = async function* () {
        for await (const block of localBlocks(path, file)) {
          hash.update(block);
          yield block;
          onBytes(block.length);
        }
      };
      await withPath('upload to', uri, async () => {
        await replacer.replace(uri, content);
        await transfer.verify(uri, path.text, hash.digest('hex'));
      });
    });
  } finally {
    await file.close();
  }
}

/**
 * Replaces files on the executor in one step, as far as the executor can: by an atomic replacement, else by a temporary file that is
 * renamed, else in place.
 */
class Replacer {
  readonly #transfer: Transfer;
  #way: 'atomic' | 'rename' | 'inPlace' = 'atomic';

  constructor(transfer: Transfer) {
    this.#transfer = transfer;
  }

  async replace(uri: string, content: () => AsyncIterable<Uint8Array>): Promise<void> {
    const { call, files } = this.#transfer;
    if (this.#way === 'atomic') {
      try {
        await files.fileSystem.replaceFile(uri, content(), call);
        return;
      } catch (error) {
        // A token that is limited to a directory does not allow atomic replacements, because they follow links.
        if (!failedWith(error, 'unsupported', 'invalidInput')) throw error;
        this.#way = (await this.#canRename(uri)) ? 'rename' : 'inPlace';
      }
    }
    if (this.#way === 'inPlace') {
      this.#transfer.notAtomic();
      await files.fileSystem.replaceFile(uri, content(), { ...call, atomic: false });
      return;
    }
    const temporary = temporaryUri(uri);
    try {
      await files.fileSystem.replaceFile(temporary, content(), { ...call, atomic: false });
      await files.fileSystem.rename(temporary, uri, call);
    } catch (error) {
      const { signal: _, ...rest } = call;
      await files.fileSystem.remove(temporary, { ...rest, force: true, recursive: false }).catch(() => {});
      throw error;
    }
  }

  /** Renaming a file that does not exist fails in one way or the other. */
  async #canRename(uri: string): Promise<boolean> {
    try {
      await this.#transfer.files.fileSystem.rename(temporaryUri(uri), uri, this.#transfer.call);
      return true;
    } catch (error) {
      return !failedWith(error, 'unsupported');
    }
  }
}

function temporaryUri(uri: string): string {
  return `${uri}.${randomHex().slice(0, 12)}.part`;
}

/** The bytes of a name as a segment of a URI. */
function escapeName(name: Uint8Array): string {
  let text = '';
  for (const byte of name) {
    const character = String.fromCharCode(byte);
    text += UNRESERVED.test(character) ? character : `%${byte.toString(16).toUpperCase().padStart(2, '0')}`;
  }
  return text;
}

const UNRESERVED = /[A-Za-z0-9\-._~]/;
