import * as z from 'zod/mini';
import { once } from '../base/once.ts';
import { MAX_HASHED_PATHS, MAX_LISTED_PATHS } from './limits.ts';
import { list } from './list.ts';
import { Sandbox } from './sandbox.ts';
import {
  Base64,
  Base64Text,
  doc,
  Expression,
  Identifier,
  optional,
  Pattern,
  Uint64,
  Uri,
} from './scalars.ts';

const Path = once(() => doc(Uri(), 'A `file:` URI on this host.'));
const sandboxed = once(() => ({
  sandbox: doc(optional(Sandbox()), 'The sandbox of the operation. Null adds none.'),
}));
const HandleId = once(() =>
  doc(Identifier(), 'Chosen by the client, at most 32 bytes. Unique within its connection.'),
);
const WatchId = once(() => doc(Identifier(), 'Chosen by the client. Unique within its connection.'));

/** A boolean that may be absent or null. */
function flag(description: string) {
  return doc(optional(z.boolean()), description);
}

const followSymlinks = once(() => ({
  followSymlinks: flag('Default true. With false a symbolic link anywhere in the path is an error.'),
}));

const Mode = once(() =>
  z.number().check(
    z.refine((value) => Number.isInteger(value) && value >= 0 && value <= 0o777, {
      error: 'expected permission bits, an integer from 0 to 511 (octal 777)',
    }),
  ),
);

const newAttributes = once(() => ({
  mode: doc(
    optional(Mode()),
    'The permission bits as an integer, 0 to 511 (octal 777). Set-user-ID, set-group-ID and sticky bits cannot be set.',
  ),
  modifiedAtMs: doc(optional(z.int()), 'The modification time, in milliseconds since 1970.'),
}));

const Sha256 = once(() =>
  Identifier().check(z.regex(/^[0-9a-f]{64}$/, 'expected 64 hexadecimal digits in lower case')),
);
const ResumeKey = once(() =>
  Identifier().check(z.regex(/^[0-9a-f]{32}$/, 'expected 32 hexadecimal digits in lower case')),
);

/** What is at a path, without following a link there. */
const pathAttributes = once(() => ({
  kind: z.enum(['file', 'directory', 'symlink', 'other']),
  size: doc(Uint64(), 'Bytes of a file.'),
  mode: doc(z.int(), 'The permission bits, 0 to 511.'),
  modifiedAtMs: doc(z.int(), 'Rounded down.'),
  target: doc(
    z.optional(z.string()),
    'The target of a symbolic link: its bytes, percent-encoded like the path of a `file:` URI. Absent for other kinds.',
  ),
}));

/** The result of a method that returns nothing. */
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
    recursive: flag('Default true: creates parents, and an existing directory is no error.'),
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
    isSymlink: doc(
      z.boolean(),
      'Describes the path itself. The other members describe the target of a link.',
    ),
    size: Uint64(),
    createdAtMs: doc(z.int(), '0 where the file system does not record it.'),
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
      'In no particular order. Links are followed; broken links are left out.',
    ),
  }),
);

export const FsWalkParams = once(() =>
  z.object({
    path: Path(),
    options: z.object({
      maxDepth: doc(Uint64(), '0 to 64. 0 lists only the direct children.'),
      maxDirectories: doc(Uint64(), '1 to 10,000, including the root.'),
      maxEntries: doc(Uint64(), '1 to 50,000 entries examined.'),
      followDirectorySymlinks: z.boolean(),
      pruneHiddenDirectories: doc(
        z._default(z.boolean(), false),
        'List directories whose names begin with a dot, but do not enter them.',
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
    truncated: doc(z.boolean(), 'True when a limit ended the walk early.'),
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

export const FsListParams = once(() =>
  z.object({
    paths: doc(list(Uri(), MAX_LISTED_PATHS), '`file:` URIs, at most 1,000.'),
    recursive: flag('Default false. With true the directories below are listed too, breadth first.'),
    ...sandboxed(),
  }),
);
export const FsListResult = once(() =>
  z.object({
    listings: doc(
      z.array(
        z.object({
          path: Path(),
          attributes: doc(z.optional(z.object(pathAttributes())), 'What is at the path itself.'),
          entries: doc(
            z.optional(
              z.array(
                z.object({
                  name: doc(
                    z.string(),
                    'The bytes of the name, percent-encoded like a segment of a `file:` URI.',
                  ),
                  ...pathAttributes(),
                }),
              ),
            ),
            'What is in the directory, in no particular order. Absent when the path is no directory.',
          ),
          error: doc(
            z.optional(z.object({ code: z.int(), message: z.string() })),
            'Why the path could not be read, as the error of `fs/readDirectory`. The other members are absent then.',
          ),
        }),
      ),
      'The requested paths and, with `recursive`, the directories below them.',
    ),
    unlisted: doc(
      z.array(Path()),
      'Paths that did not fit: a result ends after the directory with which it has 20,000 entries or 4 MiB of names. Request them next.',
    ),
  }),
);

export const FsSetAttributesParams = once(() =>
  z.object({ path: Path(), ...newAttributes(), ...sandboxed() }),
);

export const FsCreateLinkParams = once(() =>
  z.object({
    path: Path(),
    target: doc(
      Uri(),
      'What the link leads to, percent-encoded like the path of a `file:` URI: absolute, or relative to the directory of the link. At most 4,095 bytes. It need not exist.',
    ),
    replace: flag(
      'Default false. With true an existing file or link is replaced in one step. A directory is not.',
    ),
    ...sandboxed(),
  }),
);

export const FsHashParams = once(() =>
  z.object({
    paths: doc(list(Uri(), MAX_HASHED_PATHS), '`file:` URIs of regular files, at most 1,000.'),
    ...followSymlinks(),
    ...sandboxed(),
    timeoutMs: doc(
      optional(Uint64()),
      '1 to 3,600,000, for all files together. Default 600,000. Files that are not done by then have an `error`.',
    ),
  }),
);
export const FsHashResult = once(() =>
  z.object({
    files: doc(
      z.array(
        z.object({
          sha256: doc(
            z.optional(z.string()),
            'The SHA-256 of the content, 64 hexadecimal digits in lower case.',
          ),
          size: doc(z.optional(Uint64()), 'How many bytes were hashed.'),
          error: doc(
            z.optional(z.object({ code: z.int(), message: z.string() })),
            'Why this file could not be read, as the error of `fs/readFile`. The other members are absent then.',
          ),
        }),
      ),
      'One for each path, in the order of the request.',
    ),
  }),
);

export const FsOpenParams = once(() =>
  z.object({
    handleId: HandleId(),
    path: Path(),
    mode: doc(
      z._default(z.enum(['read', 'replace', 'atomicReplace']), 'read'),
      '`replace` truncates the file and writes in place. `atomicReplace` writes a new file that replaces the old one at `fs/close`.',
    ),
    attributes: doc(
      optional(z.object(newAttributes())),
      'Only with `atomicReplace`: attributes of the new file. Until `fs/close` only its owner can read it if `mode` is given.',
    ),
    durable: flag(
      'Default true: an atomic replacement is on the disk before it takes effect. With false it is as fast as a copy, and a power failure may lose it, or on some file systems leave an empty file.',
    ),
    resumeKey: doc(
      optional(ResumeKey()),
      'Only with `atomicReplace` and `attributes.mode`: 32 hexadecimal digits in lower case that identify the new content. An unfinished file is kept when the connection ends or with `discard`, and an `fs/open` of the same path with the same key continues it. The server removes it after 7 days.',
    ),
    hash: flag(
      'Only with `atomicReplace`. Default false. With true the server computes the SHA-256 of the blocks while they arrive, and `fs/close` accepts `sha256`.',
    ),
    ifSha256: doc(
      optional(Sha256()),
      'Only with `atomicReplace`: the SHA-256 of the old file, which has at most 16 MiB. `fs/close` compares it immediately before the replacement. If the file has changed or is gone, the server drops the replacement, and the request fails.',
    ),
    ...sandboxed(),
  }),
);
export const FsOpenResult = once(() =>
  z.object({
    handleId: HandleId(),
    part: doc(
      z.optional(z.object({ path: Path(), size: doc(Uint64(), 'Bytes that are there already.') })),
      'The unfinished file of a `resumeKey`. Absent when it cannot be resumed, for example because another handle writes it.',
    ),
  }),
);

export const FsReadBlockParams = once(() =>
  z.object({ handleId: HandleId(), offset: Uint64(), len: doc(Uint64(), '1 to 1,048,576.') }),
);
export const FsReadBlockResult = once(() =>
  z.object({ chunk: Base64(), eof: doc(z.boolean(), 'True only when fewer than `len` bytes were read.') }),
);

export const FsWriteBlockParams = once(() =>
  z.object({ handleId: HandleId(), offset: Uint64(), chunk: doc(Base64Text(), '1 to 1,048,576 bytes.') }),
);

export const FsCloseParams = once(() =>
  z.object({
    handleId: HandleId(),
    discard: flag('Default false. With true the server drops an atomic replacement and keeps the old file.'),
    sha256: doc(
      optional(Sha256()),
      'Only for a file that was opened with `hash`, and whose blocks were written in order from its start. The replacement takes effect only if the blocks have this SHA-256. Otherwise the server drops it, and the request fails. An unknown handle is an error then.',
    ),
  }),
);

export const FsWatchMissingParams = once(() =>
  z.object({
    watchId: doc(Uint64(), 'A generation number. Only a number higher than all earlier ones has an effect.'),
    missing: doc(list(Uri()), 'Paths that do not exist yet.'),
    present: doc(optional(Uri()), 'A path that exists.'),
  }),
);
export const FsWatchMissingResult = once(() => z.object({ watching: z.boolean() }));
export const FsMissingChangedParams = once(() => z.object({ watchId: Uint64() }));

export const FsWatchParams = once(() =>
  z.object({
    watchId: WatchId(),
    path: doc(Uri(), 'A `file:` URI of an existing file or directory.'),
    recursive: flag('Default true: watches everything below a directory.'),
    exclude: doc(optional(list(Pattern())), 'Globs of paths, relative to `path`, that are not watched.'),
    ...sandboxed(),
    debounceMs: doc(
      optional(Uint64()),
      'How long to collect changes before they are reported, up to 5,000. Default 50.',
    ),
  }),
);
export const FsWatchResult = once(() => z.object({ watchId: WatchId() }));
export const FsUnwatchParams = once(() => z.object({ watchId: WatchId() }));
export const FsChangedParams = once(() =>
  z.object({
    watchId: WatchId(),
    changes: z.array(z.object({ path: Path(), kind: z.enum(['created', 'modified', 'deleted']) })),
    overflow: doc(z.boolean(), 'Changes were lost and the list is incomplete: read the tree again.'),
  }),
);

export const FsSearchParams = once(() =>
  z.object({
    path: doc(Uri(), 'A `file:` URI of a directory or file.'),
    pattern: doc(
      Expression(),
      'A regular expression in the syntax of ripgrep, or plain text with `literal`. Lines are searched one by one.',
    ),
    literal: flag('Default false.'),
    caseSensitive: flag('Default true.'),
    include: doc(
      optional(list(Pattern())),
      'Globs of files to search, relative to `path`; all when absent or empty. A glob without a slash matches names at any depth. One with a trailing slash matches everything in a directory.',
    ),
    exclude: doc(optional(list(Pattern())), 'Globs of files and directories to leave out.'),
    respectIgnoreFiles: flag(
      'Default true: skips .git and everything that .gitignore, .ignore and .rgignore files name.',
    ),
    includeHidden: flag('Default false: skips names that begin with a dot.'),
    maxResults: doc(optional(Uint64()), '1 to 10,000 matching lines. Default 1,000.'),
    ...sandboxed(),
    timeoutMs: doc(optional(Uint64()), '1 to 60,000, including the wait for other searches. Default 10,000.'),
  }),
);
export const FsSearchResult = once(() =>
  z.object({
    matches: z.array(
      z.object({
        path: Path(),
        line: doc(Uint64(), 'From 1.'),
        column: doc(Uint64(), 'Byte offset of the first match in the line, from 1.'),
        text: doc(z.string(), 'The line. Long lines are cut around the match.'),
      }),
    ),
    truncated: doc(
      optional(z.enum(['results', 'time', 'size'])),
      'The limit that made the search incomplete. `size` is the limit of the result, of a text file (64 MiB) or of a line (1 MiB). Null when every readable text file was searched. Files with a NUL byte are not text.',
    ),
    incompleteFiles: doc(
      z.optional(z.array(Path())),
      'The first 32 files that were not searched completely because the file or a line is too large. Absent when all were searched.',
    ),
    unreadable: doc(
      z.optional(Uint64()),
      'Number of files and directories that could not be read, and were not searched. Absent when all were read.',
    ),
    engine: z.enum(['ripgrep', 'builtin']),
  }),
);
