import { ClientError } from '../../../client/errors.ts';
import { listDirectories, type TreeEntry } from '../../../client/files/list-tree.ts';
import type { Call } from '../call.ts';
import { filesOf, type OpenPath } from './open-file.ts';

/** A directory below the first one. */
interface LevelDirectory<T> {
  readonly uri: string;
  /** Relative to the first directory: empty, or ends with a slash. */
  readonly path: string;
  /** What the caller knows about it. */
  readonly data: T;
}

/** What is in a directory, or why it cannot be read. */
interface LevelListing<T> {
  readonly directory: LevelDirectory<T>;
  readonly entries: readonly TreeEntry[];
  readonly error: ClientError | null;
  /** Lists a directory of the entries later, with the next level. */
  enter(entry: TreeEntry, data: T): void;
}

/** Lists a directory level by level, as far as the caller enters what is below it. Links are not followed. */
export async function* listLevels<T>(
  call: Call,
  root: OpenPath,
  data: T,
): AsyncGenerator<LevelListing<T>, void> {
  let level: LevelDirectory<T>[] = [{ uri: root.uri, path: '', data }];
  while (level.length > 0) {
    const byUri = new Map(level.map((directory) => [directory.uri, directory]));
    const below: LevelDirectory<T>[] = [];
    for await (const { uri, entries, error } of listDirectories(
      filesOf(call),
      [...byUri.keys()],
      root.options,
    )) {
      const directory = byUri.get(uri) ?? byUri.get(uri.replace(/\/$/, ''));
      if (directory === undefined) continue;
      const enter = (entry: TreeEntry, known: T) =>
        void below.push({ uri: entry.uri, path: `${directory.path}${nameOf(entry)}/`, data: known });
      yield { directory, entries, error, enter };
    }
    level = below;
  }
}

/** The path of a directory that is listed. A link to it is followed. */
export async function realDirectory(call: Call, path: OpenPath): Promise<OpenPath> {
  try {
    return { ...path, uri: await filesOf(call).canonicalize(path.uri, path.options) };
  } catch (error) {
    if (error instanceof ClientError && error.kind === 'unsupported') return path;
    throw error;
  }
}

/** The name as text. */
export function nameOf({ path, encodedName }: TreeEntry): string {
  return path.startsWith('file:') ? encodedName : path.slice(path.lastIndexOf('/') + 1);
}
