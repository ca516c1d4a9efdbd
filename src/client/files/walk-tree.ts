import { RpcErrorCode } from '../../protocol/errors.ts';
import type { ExecutorFileSystem, FileOptions, WalkOptions, WalkResult } from '../backend.ts';
import { serverErrorKind } from '../connection/error-kinds.ts';
import { ClientError } from '../errors.ts';
import { WALK_MAX_DEPTH, WALK_MAX_DIRECTORIES, WALK_MAX_ENTRIES } from '../limits.ts';
import { toNativePath } from '../paths.ts';
import { namingPath } from './file-errors.ts';

/** An entry below a directory. */
export interface WalkEntry {
  /** A native path, or the `file:` URI of a path that is not UTF-8. */
  readonly path: string;
  readonly uri: string;
  readonly kind: 'directory' | 'file';
}

export interface WalkTreeOptions extends FileOptions {
  /** 1 is the direct children. No limit by default. */
  readonly maxDepth?: number;
  /** Whether links to directories are entered, each directory once. Default false. The tree must fit one request then. */
  readonly followSymlinks?: boolean;
  /** Whether directories whose names begin with a dot are entered. Default true. */
  readonly hidden?: boolean;
  /** Receives the error of a directory that could not be read. Without it the walk fails with that error. */
  readonly onError?: (error: ClientError) => void;
}

/**
 * Walks a tree of any size. Servers limit what one request returns; where that is exceeded, the contents of the directory are listed
 * first and each subdirectory is walked on its own.
 */
export async function* walkTree(
  files: ExecutorFileSystem,
  root: string,
  options: WalkTreeOptions,
): AsyncGenerator<WalkEntry, void> {
  const {
    maxDepth = Number.POSITIVE_INFINITY,
    followSymlinks = false,
    hidden = true,
    onError,
    ...call
  } = options;
  if (!(maxDepth >= 1)) throw new ClientError('invalidInput', `maxDepth must be at least 1, not ${maxDepth}`);
  const limits: WalkOptions = {
    maxDepth: WALK_MAX_DEPTH,
    maxDirectories: WALK_MAX_DIRECTORIES,
    maxEntries: WALK_MAX_ENTRIES,
    followDirectorySymlinks: followSymlinks,
    pruneHiddenDirectories: !hidden,
  };
  const report = ({ errors }: WalkResult) => {
    for (const { path, message } of errors) {
      const error = namingPath('list', path, walkError(message)) as ClientError;
      if (onError === undefined) throw error;
      onError(error);
    }
  };
  /** Directories that are still to be walked, the next one last, and how deep their contents are. */
  const pending: { readonly uri: string; readonly depth: number }[] = [{ uri: root, depth: 1 }];
  for (let next = pending.pop(); next !== undefined; next = pending.pop()) {
    const { uri, depth } = next;
    const levels = maxDepth - depth;
    const whole = await files.walk(uri, { ...limits, maxDepth: Math.min(levels, WALK_MAX_DEPTH) }, call);
    const isComplete = !whole.truncated && !(levels > WALK_MAX_DEPTH && reaches(whole, uri, WALK_MAX_DEPTH));
    if (isComplete) {
      report(whole);
      yield* whole.entries.map(entryOf);
      continue;
    }
    const direct = followSymlinks ? whole : await files.walk(uri, { ...limits, maxDepth: 0 }, call);
    if (direct.truncated) throw tooLarge(uri, followSymlinks);
    report(direct);
    yield* direct.entries.map(entryOf);
    const entered = direct.entries.filter(
      ({ path, kind }) => kind === 'directory' && levels > 0 && (hidden || !isHidden(path)),
    );
    // Else a server could list without an end.
    if (!followSymlinks && entered.some(({ path }) => !path.startsWith(uri) || path.length <= uri.length))
      throw new ClientError('protocol', `invalid message from the server: a path outside ${uri}`);
    pending.push(...entered.map(({ path }) => ({ uri: path, depth: depth + 1 })).reverse());
  }
}

/** A walk reports its errors as text. */
function walkError(message: string): ClientError {
  return new ClientError(serverErrorKind(RpcErrorCode.internal, message), message);
}

function entryOf({ path, kind }: WalkResult['entries'][number]): WalkEntry {
  return { path: toNativePath(path), uri: path, kind };
}

/** Whether a walk found a directory at the deepest level that it may examine. */
function reaches({ entries }: WalkResult, root: string, depth: number): boolean {
  const rootNames = root.replace(/\/$/, '').split('/').length;
  return entries.some(({ path, kind }) => kind === 'directory' && path.split('/').length - rootNames > depth);
}

function isHidden(uri: string): boolean {
  return /\/\.[^/]*$/.test(uri);
}

function tooLarge(uri: string, followSymlinks: boolean): ClientError {
  const where = toNativePath(uri);
  return followSymlinks
    ? new ClientError('invalidInput', `the tree below ${where} is too large to follow links in it`, {
        hint: `walk without followSymlinks, or with a smaller maxDepth`,
      })
    : new ClientError('invalidInput', `${where} has more entries than a server lists`, {
        hint: `split the directory; the limit is ${WALK_MAX_ENTRIES} entries or 4 MiB of paths`,
      });
}
