import type { FileErrorKind } from '../../../files/errors.ts';
import type { FileOperationName, FileSystem } from '../../../files/file-system.ts';
import type { NativePath } from '../../../files/native-path.ts';
import type { SearchRequest, SearchResult } from '../../../files/search/query.ts';

/** What a helper does besides the methods of a file system. */
export interface ServedFiles {
  readonly fileSystem: FileSystem;
  search(request: SearchRequest, signal: AbortSignal): Promise<SearchResult>;
}

/** The heads of requests. The content of the first one is a {@link HelperTask}, without which nothing is done. */
export type OperationHead = readonly ['prepare'] | FileOperation;

/** What can be asked of a helper. */
export type FileOperation = readonly [name: FileOperationName, ...json: unknown[]] | HandleOperation;

/** Operations besides those of a file system. An open file goes by the number that the helper gave it. */
export type HandleOperation =
  | readonly ['readContent', file: number, length: number]
  | readonly ['read', file: number, position: number, length: number]
  | readonly ['write', file: number, position: number]
  | readonly ['close', file: number]
  | readonly ['discard', file: number]
  /** The request is the content: patterns may be long. */
  | readonly ['search'];

/** What a helper must keep out of beyond what is mounted. */
export interface HelperTask {
  /** Paths that do not exist and must not come to exist: a mount that protects them would leave something on the host. */
  readonly absent: readonly AbsentPath[];
  /** What is mounted for the helper itself and is no business of clients. */
  readonly hidden: readonly NativePath[];
  /** Directories of the sandbox's own. To programs they are writable until the sandbox ends; in one that lives long they are not. */
  readonly fleeting: readonly NativePath[];
}

/** A path that is kept from being made. A directory shows as an empty one that cannot be written to. */
export interface AbsentPath {
  readonly path: NativePath;
  readonly kind: 'directory' | 'file';
}

/** The head of a failure. */
export interface FailureHead {
  readonly kind: FileErrorKind;
  readonly message: string;
  readonly errno: number | null;
}

/** The head of the answer to `readFile`; its content is how the file begins. The file is open when there may be more. */
export interface OpenedContent {
  readonly size: number;
  readonly file: number | null;
}
