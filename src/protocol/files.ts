import * as z from 'zod/mini';
import { once } from '../base/once.ts';
import { Sandbox } from './sandbox.ts';
import { Base64, Base64Text, doc, Identifier, optional, Uint64 } from './scalars.ts';

const Path = once(() => doc(z.string(), 'A `file:` URI of this host.'));
const sandboxed = once(() => ({
  sandbox: doc(optional(Sandbox()), 'What the operation is confined to; null is nothing of its own.'),
}));
const HandleId = once(() =>
  doc(z.string(), 'Chosen by the client, at most 32 bytes; unique within its connection.'),
);
const WatchId = once(() => doc(Identifier(), 'Chosen by the client; unique within its connection.'));

/** A flag that may be absent or null. */
function flag(description: string) {
  return doc(optional(z.boolean()), description);
}

const followSymlinks = once(() => ({
  followSymlinks: flag('Default true. With false a symbolic link anywhere in the path is an error.'),
}));

/** The whole result of a method that has nothing to tell. */
export const FsDoneResult = once(() => z.object({}));

export const FsReadFileParams = once(() => z.object({ path: Path(), ...followSymlinks(), ...sandboxed() }));
export const FsReadFileResult = once(() => z.object({ dataBase64: Base64() }));

export const FsWriteFileParams = once(() =>
  z.object({
    path: Path(),
    dataBase64: doc(Base64Text(), 'The new content.'),
    ...followSymlinks(),
    ...sandboxed(),
  }),
);

export const FsCreateDirectoryParams = once(() =>
  z.object({
    path: Path(),
    recursive: flag('Default true: parents are created, and a directory that exists is no error.'),
    ...followSymlinks(),
    ...sandboxed(),
  }),
);

export const FsGetMetadataParams = once(() =>
  z.object({ path: Path(), ...followSymlinks(), ...sandboxed() }),
);
export const FsGetMetadataResult = once(() =>
  z.object({
    isDirectory: z.boolean(),
    isFile: z.boolean(),
    isSymlink: doc(z.boolean(), 'About the path itself; the other members are about what it leads to.'),
    size: Uint64(),
    createdAtMs: doc(z.int(), '0 where the file system does not know.'),
    modifiedAtMs: z.int(),
  }),
);

export const FsCanonicalizeParams = once(() => z.object({ path: Path(), ...sandboxed() }));
export const FsCanonicalizeResult = once(() => z.object({ path: Path() }));

export const FsReadDirectoryParams = once(() => z.object({ path: Path(), ...sandboxed() }));
export const FsReadDirectoryResult = once(() =>
  z.object({
    entries: doc(
      z.array(z.object({ fileName: z.string(), isDirectory: z.boolean(), isFile: z.boolean() })),
      'In no particular order. Links are followed; those that lead nowhere are left out.',
    ),
  }),
);

export const FsWalkParams = once(() =>
  z.object({
    path: Path(),
    options: z.object({
      maxDepth: doc(Uint64(), '0 to 64; 0 lists the direct children only.'),
      maxDirectories: doc(Uint64(), '1 to 10,000, the root included.'),
      maxEntries: doc(Uint64(), '1 to 50,000 entries examined.'),
      followDirectorySymlinks: z.boolean(),
      pruneHiddenDirectories: doc(
        z._default(z.boolean(), false),
        'List directories that begin with a dot but do not enter them.',
      ),
    }),
    ...sandboxed(),
  }),
);
export const FsWalkResult = once(() =>
  z.object({
    entries: doc(
      z.array(z.object({ path: Path(), kind: z.enum(['directory', 'file']) })),
      'Breadth first, names in byte order.',
    ),
    errors: z.array(z.object({ path: Path(), message: z.string() })),
    truncated: doc(z.boolean(), 'A limit cut something off.'),
  }),
);

export const FsRemoveParams = once(() =>
  z.object({
    path: Path(),
    recursive: flag('Default true.'),
    force: flag('Default true: a path that does not exist is no error.'),
    ...followSymlinks(),
    ...sandboxed(),
  }),
);

export const FsCopyParams = once(() =>
  z.object({
    sourcePath: Path(),
    destinationPath: Path(),
    recursive: doc(z.boolean(), 'Must be true when the source is a directory.'),
    ...sandboxed(),
  }),
);

export const FsRenameParams = once(() =>
  z.object({ sourcePath: Path(), destinationPath: Path(), ...sandboxed() }),
);

export const FsOpenParams = once(() =>
  z.object({
    handleId: HandleId(),
    path: Path(),
    mode: doc(
      z._default(z.enum(['read', 'replace', 'atomicReplace']), 'read'),
      '`replace` empties the file and writes in place; `atomicReplace` puts the new file in its place at `fs/close`.',
    ),
    ...sandboxed(),
  }),
);
export const FsOpenResult = once(() => z.object({ handleId: HandleId() }));

export const FsReadBlockParams = once(() =>
  z.object({ handleId: HandleId(), offset: Uint64(), len: doc(Uint64(), '1 to 1,048,576.') }),
);
export const FsReadBlockResult = once(() =>
  z.object({ chunk: Base64(), eof: doc(z.boolean(), 'True only when fewer than `len` bytes came.') }),
);

export const FsWriteBlockParams = once(() =>
  z.object({ handleId: HandleId(), offset: Uint64(), chunk: doc(Base64Text(), '1 to 1,048,576 bytes.') }),
);

export const FsCloseParams = once(() =>
  z.object({
    handleId: HandleId(),
    discard: flag('Default false. With true an atomic replacement is dropped and the old file stays.'),
  }),
);

export const FsWatchMissingParams = once(() =>
  z.object({
    watchId: doc(Uint64(), 'A generation: only one higher than all before counts.'),
    missing: doc(z.array(z.string()), 'Paths that do not exist yet.'),
    present: doc(optional(z.string()), 'A path that exists.'),
  }),
);
export const FsWatchMissingResult = once(() => z.object({ watching: z.boolean() }));
export const FsMissingChangedParams = once(() => z.object({ watchId: Uint64() }));

export const FsWatchParams = once(() =>
  z.object({
    watchId: WatchId(),
    path: doc(z.string(), 'An existing file or directory, a `file:` URI.'),
    recursive: flag('Default true: everything below a directory.'),
    exclude: doc(optional(z.array(z.string())), 'Globs of paths, relative to `path`, that are not watched.'),
    ...sandboxed(),
    debounceMs: doc(
      optional(Uint64()),
      'How long changes gather before they are told, up to 5,000. Default 50.',
    ),
  }),
);
export const FsWatchResult = once(() => z.object({ watchId: WatchId() }));
export const FsUnwatchParams = once(() => z.object({ watchId: WatchId() }));
export const FsChangedParams = once(() =>
  z.object({
    watchId: WatchId(),
    changes: z.array(z.object({ path: Path(), kind: z.enum(['created', 'modified', 'deleted']) })),
    overflow: doc(z.boolean(), 'Changes were lost: the list is not complete, look at the tree again.'),
  }),
);

export const FsSearchParams = once(() =>
  z.object({
    path: doc(z.string(), 'A directory or file, a `file:` URI.'),
    pattern: doc(
      z.string(),
      'A regular expression in the syntax of ripgrep, or plain text with `literal`. Lines are searched one by one.',
    ),
    literal: flag('Default false.'),
    caseSensitive: flag('Default true.'),
    include: doc(
      optional(z.array(z.string())),
      'Globs of files to search, relative to `path`; all when absent or empty. Without a slash they match names at any depth, with one at the end all that is in a directory.',
    ),
    exclude: doc(optional(z.array(z.string())), 'Globs of files and directories to leave out.'),
    respectIgnoreFiles: flag(
      'Default true: what .gitignore, .ignore and .rgignore files name is left out, and .git.',
    ),
    includeHidden: flag('Default false: names that begin with a dot are left out.'),
    maxResults: doc(optional(Uint64()), '1 to 10,000 matching lines. Default 1,000.'),
    ...sandboxed(),
    timeoutMs: doc(optional(Uint64()), '1 to 60,000, the wait for other searches included. Default 10,000.'),
  }),
);
export const FsSearchResult = once(() =>
  z.object({
    matches: z.array(
      z.object({
        path: Path(),
        line: doc(Uint64(), 'From 1.'),
        column: doc(Uint64(), 'Byte of the line where the first match begins, from 1.'),
        text: doc(z.string(), 'The line; long ones are cut around the match.'),
      }),
    ),
    truncated: doc(
      optional(z.enum(['results', 'time', 'size'])),
      'Which limit kept the search from being complete: `size` is that of the answer or of a text file. Null when none did.',
    ),
    engine: z.enum(['ripgrep', 'builtin']),
  }),
);
