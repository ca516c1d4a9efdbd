import type { FileOptions, SearchOptions, SymlinkOptions, WatchOptions } from '../backend.ts';
import { CALL_OPTIONS, expectOptions, type OptionNames, wrong } from '../connection/option-checks.ts';
import type { FileSource, RemoveOptions, WriteOptions } from './file-types.ts';
import type { ListTreeOptions } from './list-tree.ts';
import type { TransferOptions } from './transfer-result.ts';
import type { WalkTreeOptions } from './walk-tree.ts';

const FILE_OPTIONS: OptionNames<FileOptions> = { ...CALL_OPTIONS, sandbox: true };
const SYMLINK_OPTIONS: OptionNames<SymlinkOptions> = { ...FILE_OPTIONS, followSymlinks: true };

const WRITE_OPTIONS: OptionNames<WriteOptions> = {
  ...FILE_OPTIONS,
  parents: true,
  atomic: true,
  ifSha256: true,
};
const REMOVE_OPTIONS: OptionNames<RemoveOptions> = { ...SYMLINK_OPTIONS, recursive: true, force: true };
const WATCH_OPTIONS: OptionNames<WatchOptions> = {
  ...FILE_OPTIONS,
  recursive: true,
  exclude: true,
  debounceMs: true,
};
const WALK_OPTIONS: OptionNames<WalkTreeOptions> = {
  ...FILE_OPTIONS,
  maxDepth: true,
  followSymlinks: true,
  hidden: true,
  onError: true,
};
const TREE_OPTIONS: OptionNames<ListTreeOptions> = { ...FILE_OPTIONS, recursive: true, onError: true };
const SEARCH_OPTIONS: OptionNames<SearchOptions> = {
  ...FILE_OPTIONS,
  literal: true,
  caseSensitive: true,
  include: true,
  exclude: true,
  respectIgnoreFiles: true,
  includeHidden: true,
  maxResults: true,
};
const TRANSFER_OPTIONS: OptionNames<TransferOptions> = {
  ...FILE_OPTIONS,
  onProgress: true,
  verify: true,
  keepTimes: true,
  durable: true,
  onError: true,
};

/** The operations of `Files`: the verb of their errors, and the names of their options. */
export const FILE_OPERATIONS = {
  read: { verb: 'read', options: SYMLINK_OPTIONS },
  readText: { verb: 'read', options: SYMLINK_OPTIONS },
  readStream: { verb: 'read', options: FILE_OPTIONS },
  write: { verb: 'write', options: WRITE_OPTIONS },
  list: { verb: 'list', options: FILE_OPTIONS },
  stat: { verb: 'stat', options: SYMLINK_OPTIONS },
  realPath: { verb: 'resolve', options: FILE_OPTIONS },
  walk: { verb: 'walk', options: WALK_OPTIONS },
  search: { verb: 'search', options: SEARCH_OPTIONS },
  watch: { verb: 'watch', options: WATCH_OPTIONS },
  copy: { verb: 'copy', options: FILE_OPTIONS },
  move: { verb: 'move', options: FILE_OPTIONS },
  remove: { verb: 'remove', options: REMOVE_OPTIONS },
  makeDirectory: { verb: 'create the directory', options: { ...SYMLINK_OPTIONS, parents: true } },
  attributes: { verb: 'read the attributes of', options: FILE_OPTIONS },
  tree: { verb: 'list', options: TREE_OPTIONS },
  setAttributes: { verb: 'set the attributes of', options: FILE_OPTIONS },
  makeLink: { verb: 'create the link', options: { ...FILE_OPTIONS, replace: true } },
  hash: { verb: 'hash', options: SYMLINK_OPTIONS },
  hashAll: { verb: 'hash', options: SYMLINK_OPTIONS },
  upload: { verb: 'upload', options: TRANSFER_OPTIONS },
  download: { verb: 'download', options: TRANSFER_OPTIONS },
} as const satisfies Record<string, { verb: string; options: Readonly<Record<string, true>> }>;

export type FileOperation = keyof typeof FILE_OPERATIONS;

/** Throws ClientError for an unknown option. */
export function expectFileOptions(operation: FileOperation, options: unknown): void {
  expectOptions(`files.${operation}`, options, FILE_OPERATIONS[operation].options);
}

/** Throws ClientError when the content of a file is something else than text, bytes or a stream of bytes. */
export function expectFileSource(content: unknown): asserts content is FileSource {
  if (typeof content === 'string' || content instanceof Uint8Array) return;
  const isObject = typeof content === 'object' && content !== null;
  if (isObject && (Symbol.asyncIterator in content || Symbol.iterator in content)) return;
  throw wrong('`content` is', content, 'text, a Uint8Array or an iterable of Uint8Arrays');
}
