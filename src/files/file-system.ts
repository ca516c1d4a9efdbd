import type { NativePath } from './native-path.ts';

/**
 * Whether symbolic links in the path, including its last name, are followed or are an error. Where the option is absent they are
 * followed.
 */
export interface LinkOption {
  readonly followSymlinks: boolean;
}

/** An open regular file that is read once, from the start. Its owner closes it. */
export interface FileContent {
  /** The size when the file was opened. It may be 0 for files that the kernel generates, such as those in /proc. */
  readonly size: number;
  /** The whole content if it has already been read. Then nothing is left to read or close. */
  readonly whole?: Buffer;
  /** Fills `buffer` as far as the file reaches. Fewer bytes mean the end of the file. */
  read(buffer: Buffer): Promise<number>;
  close(): Promise<void>;
}

export interface FileMetadata {
  readonly isDirectory: boolean;
  readonly isFile: boolean;
  readonly isSymlink: boolean;
  readonly size: number;
  readonly createdAtMs: number;
  readonly modifiedAtMs: number;
}

/** What is at a path, without following a link there. `mode` has the permission bits only. */
export interface FileAttributes {
  readonly kind: 'file' | 'directory' | 'symlink' | 'other';
  readonly size: number;
  readonly mode: number;
  readonly modifiedAtMs: number;
  /** Where a link leads to. It holds bytes, one per character. */
  readonly target?: string;
}

/** What is at a path, and what is in it if it is a directory. `name` holds bytes. */
export interface PathListing {
  readonly attributes: FileAttributes;
  readonly entries: readonly (FileAttributes & { readonly name: string })[] | null;
}

/** Attributes to set. An absent one stays as it is. `mode` has permission bits only. */
export interface NewAttributes {
  readonly mode?: number | undefined;
  readonly modifiedAtMs?: number | undefined;
}

/** An entry of a directory. `name` holds bytes, one per character. */
export interface DirectoryEntry {
  readonly name: string;
  readonly isDirectory: boolean;
  readonly isFile: boolean;
}

export interface WalkOptions {
  readonly maxDepth: number;
  readonly maxDirectories: number;
  readonly maxEntries: number;
  readonly followDirectorySymlinks: boolean;
  readonly pruneHiddenDirectories: boolean;
  /**
   * The real path of a directory. If present, the walk does not enter links to directories outside it and reports them as errors.
   */
  readonly linksWithin?: NativePath;
}

/** An entry of a tree. It carries the URI instead of the path, because the size limit of the response counts URIs. */
export interface WalkEntry {
  readonly uri: string;
  readonly kind: 'directory' | 'file';
}

export interface WalkResult {
  readonly entries: readonly WalkEntry[];
  readonly errors: readonly { readonly uri: string; readonly message: string }[];
  readonly truncated: boolean;
}

/** The SHA-256 of a file, in hexadecimal digits, and how many bytes were hashed. */
export interface FileHash {
  readonly sha256: string;
  readonly size: number;
}

/** How a file is opened: to read it, to overwrite it in place, or to replace it by a new file on close. */
export type OpenMode = 'read' | 'replace' | 'atomicReplace';

export interface OpenOptions extends LinkOption {
  /** The attributes of the new file, which has them when it appears. */
  readonly attributes?: NewAttributes;
  /** Whether an atomic replacement is flushed to the disk before it takes effect. Default true. */
  readonly durable?: boolean | undefined;
  /** Only with a mode. Identifies the content of an unfinished replacement that is kept when it is discarded, and continued. */
  readonly resumeKey?: string | undefined;
  /** The atomic replacement takes effect only if the old file still has this SHA-256. */
  readonly ifSha256?: string | undefined;
}

export interface ReplacementPart {
  readonly path: NativePath;
  readonly size: number;
}

/** An open file that is read and written at any position, by one operation at a time. */
export interface OpenFile {
  /** The unfinished file of a resumable replacement, and its size when it was opened. */
  readonly part?: ReplacementPart | undefined;
  /** Reads up to `length` bytes from `position`; fewer only at the end of the file. `into`, if given, is large enough. */
  read(position: number, length: number, into?: Buffer): Promise<Buffer>;
  write(position: number, bytes: Uint8Array): Promise<void>;
  /** Closes the file. An atomic replacement takes effect here, or fails here and leaves the old file. */
  close(): Promise<void>;
  /**
   * Returns the SHA-256 of what was written. Null where the blocks were not written in order from the start of the file. Absent where
   * nothing is hashed.
   */
  digest?(): Promise<string | null>;
  /** Closes the file and drops an atomic replacement. The part of a resumable one stays. */
  discard(): Promise<void>;
}

/** Passed to operations that may wait for another process. */
export interface Waiting {
  /** Aborted when the result is no longer needed. */
  readonly signal: AbortSignal;
  /** Called when the operation has to wait for another process, such as the reader of a FIFO. */
  onWait(): void;
}

/** Files as the server's methods see them. Paths are native and absolute. Operations fail with FileErrors. */
export interface FileSystem {
  readFile(path: NativePath, options: LinkOption): Promise<FileContent>;
  writeFile(path: NativePath, bytes: Uint8Array, options: LinkOption, waiting: Waiting): Promise<void>;
  createDirectory(path: NativePath, options: LinkOption & { readonly recursive: boolean }): Promise<void>;
  getMetadata(path: NativePath, options: LinkOption): Promise<FileMetadata>;
  canonicalize(path: NativePath): Promise<NativePath>;
  /** Without `followSymlinks`, links in the directory are listed as neither files nor directories. */
  readDirectory(path: NativePath, options?: LinkOption): Promise<DirectoryEntry[]>;
  walk(
    path: NativePath,
    options: WalkOptions & Partial<LinkOption>,
    signal: AbortSignal,
  ): Promise<WalkResult>;
  remove(
    path: NativePath,
    options: LinkOption & { readonly recursive: boolean; readonly force: boolean },
  ): Promise<void>;
  copy(source: NativePath, destination: NativePath, options: { readonly recursive: boolean }): Promise<void>;
  rename(source: NativePath, destination: NativePath): Promise<void>;
  /** Without `followSymlinks` a link before the last name is an error. A link as the last name is never followed. */
  list(path: NativePath, options: LinkOption): Promise<PathListing>;
  /** Does not follow a link as the last name: it sets the time of the link itself, and refuses to set its mode. */
  setAttributes(path: NativePath, attributes: NewAttributes): Promise<void>;
  /** Creates a symbolic link. `target` holds bytes, one per character. */
  createLink(path: NativePath, target: string, options: { readonly replace: boolean }): Promise<void>;
  /** Hashes a regular file. Rejects with the signal's reason when it is aborted. */
  hash(path: NativePath, options: LinkOption, signal: AbortSignal): Promise<FileHash>;
  /** `atomicReplace` always follows links. Only it takes attributes. */
  open(path: NativePath, mode: OpenMode, options?: OpenOptions): Promise<OpenFile>;
}

export type FileOperationName = keyof FileSystem;

/**
 * Every operation once, with the facts that forwarding code needs. `scope` is `tree` if the operation makes several system calls at
 * a time or takes long, otherwise `entry`. `arguments` and `result` name the kinds of the arguments and of the result.
 */
export const FILE_OPERATIONS = {
  readFile: { scope: 'entry', arguments: ['json', 'json'], result: 'content' },
  writeFile: { scope: 'entry', arguments: ['json', 'bytes', 'json', 'waiting'], result: 'none' },
  createDirectory: { scope: 'entry', arguments: ['json', 'json'], result: 'none' },
  getMetadata: { scope: 'entry', arguments: ['json', 'json'], result: 'json' },
  canonicalize: { scope: 'entry', arguments: ['json'], result: 'json' },
  readDirectory: { scope: 'tree', arguments: ['json', 'json'], result: 'entries' },
  walk: { scope: 'tree', arguments: ['json', 'json', 'signal'], result: 'walk' },
  remove: { scope: 'tree', arguments: ['json', 'json'], result: 'none' },
  copy: { scope: 'tree', arguments: ['json', 'json', 'json'], result: 'none' },
  rename: { scope: 'entry', arguments: ['json', 'json'], result: 'none' },
  list: { scope: 'tree', arguments: ['json', 'json'], result: 'listing' },
  setAttributes: { scope: 'entry', arguments: ['json', 'json'], result: 'none' },
  createLink: { scope: 'entry', arguments: ['json', 'json', 'json'], result: 'none' },
  // A tree operation, because it takes long: a connection keeps slots for its other operations.
  hash: { scope: 'tree', arguments: ['json', 'json', 'signal'], result: 'json' },
  open: { scope: 'entry', arguments: ['json', 'json', 'json'], result: 'file' },
} as const satisfies { readonly [Name in FileOperationName]: FileOperation<FileSystem[Name]> };

interface FileOperation<Operation extends (...args: never[]) => unknown> {
  readonly scope: 'entry' | 'tree';
  readonly arguments: ArgumentKinds<Parameters<Operation>>;
  readonly result: ResultKind<Awaited<ReturnType<Operation>>>;
}

type ArgumentKinds<Arguments extends readonly unknown[]> = {
  readonly [Index in keyof Arguments]-?: ArgumentKind<NonNullable<Arguments[Index]>>;
};

/** `json` is a value that survives JSON: a path, a mode or options. */
type ArgumentKind<Argument> = Argument extends Uint8Array
  ? 'bytes'
  : Argument extends AbortSignal
    ? 'signal'
    : Argument extends Waiting
      ? 'waiting'
      : 'json';

/** `content` and `file` stay open until the caller closes them. */
type ResultKind<Result> = undefined extends Result
  ? 'none'
  : Result extends FileContent
    ? 'content'
    : Result extends OpenFile
      ? 'file'
      : Result extends readonly DirectoryEntry[]
        ? 'entries'
        : Result extends WalkResult
          ? 'walk'
          : Result extends PathListing
            ? 'listing'
            : 'json';
