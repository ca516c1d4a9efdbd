import type { FileChange, FileOptions, SymlinkOptions } from '../backend.ts';
import type { ClientError } from '../errors.ts';

/** What the content of a file can be given as. */
export type FileSource = string | Uint8Array | AsyncIterable<Uint8Array> | Iterable<Uint8Array>;
export type FileKind = 'file' | 'directory' | 'other';

/** An entry of a directory. A link has the kind of its target, or `symlink` where it leads nowhere. */
export interface FileEntry {
  /** A name that is not UTF-8 contains U+FFFD. `walk` has its exact path. */
  readonly name: string;
  readonly path: string;
  readonly kind: FileKind | 'symlink';
  /** Whether the entry itself is a symbolic link. Null on executors without attributes, which do not report it. */
  readonly isSymlink: boolean | null;
}

/** Describes a file or directory; for a link its target. */
export interface FileInfo {
  readonly path: string;
  readonly kind: FileKind;
  /** Whether the path itself is a symbolic link. */
  readonly isSymlink: boolean;
  readonly size: number;
  readonly modifiedAt: Date;
  /** Null where the file system does not record it. */
  readonly createdAt: Date | null;
}

/** Describes what is at a path itself; a link is not followed. */
export interface PathAttributes {
  readonly path: string;
  readonly kind: FileKind | 'symlink';
  readonly size: number;
  /** The permission bits, for example 0o644. */
  readonly mode: number;
  /** Milliseconds since 1970, rounded down. */
  readonly modifiedAtMs: number;
  /** Where a link leads to, as text; null for other kinds. Bytes that are not UTF-8 are U+FFFD. */
  readonly target: string | null;
  /** The same with its exact bytes, percent-encoded. */
  readonly encodedTarget: string | null;
}

/** The SHA-256 of a file, in hexadecimal digits. */
export interface FileHash {
  readonly sha256: string;
  readonly size: number;
}

/** The hash of one of several files, or why there is none. */
export type PathHash = { readonly path: string } & (
  | (FileHash & { readonly error?: undefined })
  | { readonly error: ClientError }
);

export interface WriteOptions extends FileOptions {
  /** Whether missing parent directories are created. Default true. */
  readonly parents?: boolean;
  /**
   * With true, readers see the old file or the complete new one, which is a new inode with the same mode. With false the file is
   * written in place. By default streams and content above 16 MiB are written atomically where the executor can, other content in
   * place.
   */
  readonly atomic?: boolean;
  /**
   * Replaces the file, atomically, only if it still has this SHA-256. Otherwise fails with the kind `conflict`. For files of up to 16 MiB,
   * on executors with the capability `fsIfSha256`.
   */
  readonly ifSha256?: string | undefined;
}

export interface RemoveOptions extends SymlinkOptions {
  /** Needed for a directory that is not empty. Default false. */
  readonly recursive?: boolean;
  /** With true a path that does not exist is no error. Default false. */
  readonly force?: boolean;
}

/** A change of a watched path, with a native path. */
export interface PathChange {
  readonly path: string;
  readonly kind: FileChange['kind'];
}

/** Changes in order. `overflow` means that some are missing: read the tree again. */
export interface PathChanges {
  readonly changes: readonly PathChange[];
  readonly overflow: boolean;
}

/** Watches a path for one consumer. Leaving the loop, `close` and `await using` end it. */
export interface PathWatch extends AsyncIterable<PathChanges>, AsyncDisposable {
  close(): Promise<void>;
}
