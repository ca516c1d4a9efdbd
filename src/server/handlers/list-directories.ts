import type { FileAttributes, PathListing } from '../../files/file-system.ts';
import { LIST_MAX_BYTES, LIST_MAX_ENTRIES } from '../../files/limits.ts';
import { childPath, type NativePath } from '../../files/native-path.ts';
import { escapeBytes, uriFromPath } from '../../files/path-uri.ts';
import type { ResultOf } from '../../protocol/registry.ts';
import { domainErrorToRpc } from '../domain-errors.ts';

type ListResult = ResultOf<'fs/list'>;

/**
 * Lists paths and, with `recursive`, the directories below them, breadth first. A path that cannot be read has an error. Ends after
 * the directory that reaches a limit; the paths that are left are `unlisted`. Rejects when the connection has ended.
 */
export async function listAll(
  paths: readonly NativePath[],
  recursive: boolean,
  list: (path: NativePath) => Promise<PathListing>,
  ended: AbortSignal,
): Promise<ListResult> {
  const queue = [...paths];
  const listings: ListResult['listings'] = [];
  let entries = 0;
  let bytes = 0;
  let next = 0;
  while (next < queue.length && entries < LIST_MAX_ENTRIES && bytes < LIST_MAX_BYTES) {
    const path = queue[next++]!;
    ended.throwIfAborted();
    const uri = uriFromPath(path);
    bytes += uri.length;
    entries++;
    try {
      const listing = await list(path);
      const encoded = listing.entries?.map((entry) => {
        const name = escapeBytes(entry.name);
        bytes += name.length + (entry.target?.length ?? 0);
        if (recursive && entry.kind === 'directory') queue.push(childPath(path, entry.name));
        return { name, ...encodeAttributes(entry) };
      });
      entries += encoded?.length ?? 0;
      listings.push({
        path: uri,
        attributes: encodeAttributes(listing.attributes),
        ...(encoded !== undefined && { entries: encoded }),
      });
    } catch (error) {
      const known = domainErrorToRpc(error);
      if (known === null) throw error;
      listings.push({ path: uri, error: { code: known.code, message: known.message } });
    }
  }
  return { listings, unlisted: queue.slice(next).map(uriFromPath) };
}

function encodeAttributes({ kind, size, mode, modifiedAtMs, target }: FileAttributes) {
  return { kind, size, mode, modifiedAtMs, ...(target !== undefined && { target: escapeBytes(target) }) };
}
