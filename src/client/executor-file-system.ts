import type { CallParamsOf, NotificationParamsOf, ResultOf } from '../protocol/registry.ts';
import type { CallOptions } from './backend.ts';
import type { ClientError } from './errors.ts';

export type FileMetadata = ResultOf<'fs/getMetadata'>;
export type DirectoryEntry = ResultOf<'fs/readDirectory'>['entries'][number];
export type WalkOptions = CallParamsOf<'fs/walk'>['options'];
export type WalkResult = ResultOf<'fs/walk'>;
export type SearchResult = ResultOf<'fs/search'>;
/** The attributes of a path, its entries if it is a directory, or why it could not be read. Names and targets are percent-encoded. */
export type PathListing = ResultOf<'fs/list'>['listings'][number];
/** Listings, and the paths that did not fit the result. */
export type ListResult = ResultOf<'fs/list'>;
/** Attributes to set. Absent ones stay as they are. */
export interface NewAttributes {
  /** The permission bits, for example 0o644. Set-user-ID, set-group-ID and sticky bits cannot be set. */
  readonly mode?: number | undefined;
  /** The modification time in whole milliseconds since 1970. */
  readonly modifiedAtMs?: number | undefined;
}
export type FileChange = NotificationParamsOf<'fs/changed'>['changes'][number];

/** The SHA-256 of a file in hexadecimal digits, and how many bytes were hashed; or why it could not be read. */
export type HashOutcome =
  | { readonly sha256: string; readonly size: number; readonly error?: undefined }
  | { readonly error: ClientError };

/** Options of file operations. */
export interface FileOptions extends CallOptions {
  /**
   * The sandbox to apply: a {@link SandboxRequest} or a form that only the server knows. Absent or null means none.
   */
  readonly sandbox?: unknown;
}

export interface SymlinkOptions extends FileOptions {
  /** Default true. */
  readonly followSymlinks?: boolean;
}

/** Options of a replacement. */
export interface ReplaceOptions extends FileOptions {
  /** Default true. */
  readonly atomic?: boolean;
  /** Attributes of the new file, which has them when it appears. Only for an atomic replacement. */
  readonly attributes?: NewAttributes | undefined;
  /**
   * Default true: the new file of an atomic replacement is on the disk before it takes effect. Executors without the capability
   * `fsAttributes` always do that.
   */
  readonly durable?: boolean | undefined;
  /**
   * 32 hexadecimal digits that identify the content. An executor with the capability `fsResume` keeps what it has received if the
   * replacement fails, and a later one with the same key continues it. Needs `attributes.mode`; other executors ignore it.
   */
  readonly resumeKey?: string | undefined;
  /**
   * Default false. With true an executor with the capability `fsCloseHash` compares the SHA-256 of an atomic replacement before it takes
   * effect. The content must be a function that returns `sha256`. Other executors ignore it.
   */
  readonly compareHash?: boolean | undefined;
  /**
   * The SHA-256 of the old file, of up to 16 MiB. The executor compares it immediately before an atomic replacement takes effect, and
   * fails with the kind `conflict` if the file has changed. Fails with `unsupported` without the capability `fsIfSha256`.
   */
  readonly ifSha256?: string | undefined;
}

/** The unfinished file of an earlier replacement with the same key: its `file:` URI, and how many bytes it has. */
export interface ReplacementPart {
  readonly path: string;
  readonly size: number;
}

/**
 * The new content. A function is called when the file is open. It gets the part that an earlier replacement has left, and returns the
 * offset from which it continues and the bytes from there on.
 */
export type ReplacementContent =
  | AsyncIterable<Uint8Array>
  | Iterable<Uint8Array>
  | ((part: ReplacementPart | null) => Promise<{
      readonly offset: number;
      readonly content: AsyncIterable<Uint8Array> | Iterable<Uint8Array>;
      /**
       * Called at the end of content that begins at offset 0, if the executor compares the hash. Returns the SHA-256 in hexadecimal
       * digits. If the executor has another one, the replacement fails with the kind `invalidData`.
       */
      readonly sha256?: () => string;
    }>);

/** A search that exceeds `timeoutMs` returns the matches found so far. */
export type SearchOptions = Pick<CallOptions, 'signal'> & Omit<CallParamsOf<'fs/search'>, 'path' | 'pattern'>;
export type WatchOptions = CallOptions & Omit<CallParamsOf<'fs/watch'>, 'watchId' | 'path'>;

/**
 * Changes in the order in which they happened. `overflow` means that some changes are missing: read the tree again.
 */
export interface FileChanges {
  readonly changes: readonly FileChange[];
  readonly overflow: boolean;
}

/**
 * Watches a path for one consumer. Changes that the consumer does not take in time become an overflow. The
 * iteration ends with `close`, or throws when the path can no longer be watched. Leaving the loop closes the watch.
 */
export interface FileWatch extends AsyncIterable<FileChanges> {
  close(): Promise<void>;
  /** The same as {@link close}. */
  [Symbol.asyncDispose](): Promise<void>;
}

/**
 * The files of a local or remote executor. Paths are `file:` URIs on the executor. Errors are {@link ClientError}s
 * of the kinds `notFound`, `invalidInput`, `brokenPipe` (the connection is gone; the operation may have happened)
 * and `server`.
 */
export interface ExecutorFileSystem {
  canonicalize(path: string, options?: FileOptions): Promise<string>;
  readFile(path: string, options?: SymlinkOptions): Promise<Uint8Array>;
  /** Reads a UTF-8 file. Other encodings fail with the kind `invalidData`. */
  readFileText(path: string, options?: SymlinkOptions): Promise<string>;
  /**
   * Reads a file in blocks of at most 1 MiB, from `offset` or from its start. Leaving the loop early closes the file. `timeoutMs` applies to each
   * block.
   */
  readFileStream(
    path: string,
    options?: FileOptions & { readonly offset?: number },
  ): AsyncIterable<Uint8Array>;
  writeFile(path: string, bytes: Uint8Array | string, options?: SymlinkOptions): Promise<void>;
  createDirectory(path: string, options?: SymlinkOptions & { readonly recursive?: boolean }): Promise<void>;
  getMetadata(path: string, options?: SymlinkOptions): Promise<FileMetadata>;
  readDirectory(path: string, options?: FileOptions): Promise<readonly DirectoryEntry[]>;
  walk(path: string, walk: WalkOptions, options?: FileOptions): Promise<WalkResult>;
  remove(
    path: string,
    options?: SymlinkOptions & { readonly recursive?: boolean; readonly force?: boolean },
  ): Promise<void>;
  copy(
    source: string,
    destination: string,
    options: FileOptions & { readonly recursive: boolean },
  ): Promise<void>;
  /**
   * Renames within one file system and replaces an existing file. Fails with the kind `unsupported` on executors
   * that lack it.
   */
  rename(source: string, destination: string, options?: FileOptions): Promise<void>;
  /**
   * Lists paths, at most 1,000, with the attributes of everything in them; with `recursive` also everything below. Follows no links.
   * Paths that did not fit the result are `unlisted`. Fails with the kind `unsupported` on executors that lack it.
   */
  list(
    paths: readonly string[],
    options?: FileOptions & { readonly recursive?: boolean },
  ): Promise<ListResult>;
  /**
   * Sets the mode and the modification time of a file or directory, or the time of a link itself. Fails with the kind `unsupported`
   * on executors that lack it.
   */
  setAttributes(path: string, attributes: NewAttributes, options?: FileOptions): Promise<void>;
  /**
   * Creates a symbolic link. `target` is percent-encoded. With `replace` it replaces a file or link in one step. Fails with the kind
   * `unsupported` on executors that lack it.
   */
  createLink(
    path: string,
    target: string,
    options?: FileOptions & { readonly replace?: boolean },
  ): Promise<void>;
  /**
   * Hashes regular files, at most 1,000. Returns one outcome per path, in the order of `paths`. The executor itself stops after
   * `timeoutMs`, by default after ten minutes. Fails with the kind `unsupported` on executors that lack it.
   */
  hash(paths: readonly string[], options?: SymlinkOptions): Promise<readonly HashOutcome[]>;
  /** Finds lines in files. Fails with the kind `unsupported` on executors that lack it. */
  search(path: string, pattern: string, options?: SearchOptions): Promise<SearchResult>;
  /** Watches for changes from now on. Fails with the kind `unsupported` on executors that lack it. */
  watch(path: string, options?: WatchOptions): Promise<FileWatch>;
  /**
   * Writes a file of any size. By default the replacement is atomic: readers see the old file or the new one, and a
   * failure keeps the old one. With `atomic: false` the file is truncated first and then grows. `timeoutMs` applies
   * to each block. An atomic replacement can give the new file `attributes`. Fails with the kind `unsupported` on executors
   * that lack the requested mode.
   */
  replaceFile(path: string, content: ReplacementContent, options?: ReplaceOptions): Promise<void>;
}
