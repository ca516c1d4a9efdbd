import type { NativePath } from './native-path.ts';

/** Whether a symbolic link on the way or at the end is followed, or is an error. Where it need not be said, it is followed. */
export interface LinkOption {
  readonly followSymlinks: boolean;
}

/** An open regular file whose content is about to be read once, from the start. Its owner closes it. */
export interface FileContent {
  /** The size the file had when it was opened; it may be 0 for files that the kernel makes up. */
  readonly size: number;
  /** All of it, where it has been read already: then nothing has to be read or closed any more. */
  readonly whole?: Buffer;
  /** Fills `buffer` as far as the file goes; fewer bytes mean the end. */
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

/** An entry of a directory; `name` is in bytes. */
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
  /** The real path of a directory. Links to directories elsewhere are then not entered and are told as errors. */
  readonly linksWithin?: NativePath;
}

/** An entry of a tree. It has its URI and not its path, because the answer is measured in URIs and made of them. */
export interface WalkEntry {
  readonly uri: string;
  readonly kind: 'directory' | 'file';
}

export interface WalkResult {
  readonly entries: readonly WalkEntry[];
  readonly errors: readonly { readonly uri: string; readonly message: string }[];
  readonly truncated: boolean;
}

/** How a file is opened: to read it, to write over it in place, or to put a new one in its place when it is closed. */
export type OpenMode = 'read' | 'replace' | 'atomicReplace';

/** An open file that is read and written at any position. Operations come one at a time. */
export interface OpenFile {
  /** Up to `length` bytes from `position` on; fewer only at the end of the file. `into`, if given, has room for them. */
  read(position: number, length: number, into?: Buffer): Promise<Buffer>;
  write(position: number, bytes: Uint8Array): Promise<void>;
  /** Ends it. An atomic replacement takes effect here, or fails here and leaves the old file. */
  close(): Promise<void>;
  /** Ends it without effect where that is possible: an atomic replacement is dropped. */
  discard(): Promise<void>;
}

/** What an operation that may wait for somebody outside is told and tells. */
export interface Waiting {
  /** Aborted when the result is no longer wanted. */
  readonly signal: AbortSignal;
  /** Called when the operation cannot go on before somebody outside acts, such as a reader of a FIFO. */
  onWait(): void;
}

/** Files as the server's methods see them. Paths are native and absolute; failures are FileErrors. */
export interface FileSystem {
  readFile(path: NativePath, options: LinkOption): Promise<FileContent>;
  writeFile(path: NativePath, bytes: Uint8Array, options: LinkOption, waiting: Waiting): Promise<void>;
  createDirectory(path: NativePath, options: LinkOption & { readonly recursive: boolean }): Promise<void>;
  getMetadata(path: NativePath, options: LinkOption): Promise<FileMetadata>;
  canonicalize(path: NativePath): Promise<NativePath>;
  /** Where links are not followed, those in the directory are listed as neither files nor directories. */
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
  /** `atomicReplace` follows links and cannot do without. */
  open(path: NativePath, mode: OpenMode, options?: LinkOption): Promise<OpenFile>;
}

export type FileOperationName = keyof FileSystem;

/**
 * Every operation once, with what code needs to know that forwards all of them: whether it makes several system calls at a time
 * (`tree`) or one after another (`entry`), and the kinds of its arguments and of its result.
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

/** `json` is a path, a mode or options: a value that survives JSON. */
type ArgumentKind<Argument> = Argument extends Uint8Array
  ? 'bytes'
  : Argument extends AbortSignal
    ? 'signal'
    : Argument extends Waiting
      ? 'waiting'
      : 'json';

/** `content` and `file` stay open until they are closed. */
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
          : 'json';
