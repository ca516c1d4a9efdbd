import type { ExecutorFileSystem } from '../../backend.ts';
import { ClientError } from '../../errors.ts';
import { toNativePath } from '../../paths.ts';
import { withPath } from '../file-errors.ts';
import { walkTree } from '../walk-tree.ts';
import type { Transfer } from './transfer.ts';

interface WalkedPath {
  readonly uri: string;
  readonly kind: 'file' | 'directory';
}

/**
 * The files and directories below a directory of an executor that cannot list attributes, parents before their contents. Such an
 * executor lists exact names in a walk, but without links, and links only in a listing, so it is asked for both. A link to a file is
 * listed as a file.
 */
export async function* walkWithoutAttributes(
  transfer: Transfer,
  files: ExecutorFileSystem,
  top: string,
): AsyncGenerator<WalkedPath, void> {
  const pending = [top];
  for (let directory = pending.pop(); directory !== undefined; directory = pending.pop()) {
    const walked = new Set<string>();
    for await (const { uri, kind } of walkTree(files, directory, { ...transfer.call, maxDepth: 1 })) {
      const name = toNativePath(uri).split('/').pop()!;
      const start = directory.endsWith('/') ? directory : `${directory}/`;
      // Else a server could list without an end.
      if (!uri.startsWith(start) || uri.slice(start.length).includes('/') || walked.has(name)) {
        throw new ClientError(
          'protocol',
          `invalid message from the server: ${uri} is not an entry of ${directory}, or is listed twice`,
        );
      }
      walked.add(name);
      if (kind === 'directory') pending.push(uri);
      yield { uri, kind };
    }
    yield* linksToFiles(transfer, files, directory, walked);
  }
}

async function* linksToFiles(
  transfer: Transfer,
  files: ExecutorFileSystem,
  directory: string,
  walked: ReadonlySet<string>,
): AsyncGenerator<WalkedPath, void> {
  const listed = await withPath('list', directory, () => files.readDirectory(directory, transfer.call));
  for (const { fileName, isFile, isDirectory } of listed) {
    if (walked.has(fileName)) continue;
    const uri = `${directory.replace(/\/$/, '')}/${encodeURIComponent(fileName)}`;
    const shown = toNativePath(uri);
    if (isDirectory) transfer.skip(shown, 'a symbolic link to a directory');
    else if (!isFile) transfer.skip(shown, 'neither a file nor a directory');
    else if (fileName.includes('\ufffd'))
      transfer.skip(shown, 'a symbolic link with a name that is not UTF-8');
    else {
      transfer.followLink(shown);
      yield { uri, kind: 'file' };
    }
  }
}
