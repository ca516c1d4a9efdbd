import type { FileErrorKind } from '../../../files/errors.ts';
import type { FileOperationName, FileSystem, ReplacementPart } from '../../../files/file-system.ts';
import type { NativePath } from '../../../files/native-path.ts';
import type { SearchRequest, SearchResult } from '../../../files/search/query.ts';

/** Everything that a helper serves. */
export interface ServedFiles {
  readonly fileSystem: FileSystem;
  /** `session` identifies the client's session; each has a fair share of the concurrent searches. */
  search(request: SearchRequest, signal: AbortSignal, session: number): Promise<SearchResult>;
}

/** The head of a request. The first request is `prepare`, with a {@link HelperTask} as its content. */
export type OperationHead = readonly ['prepare'] | FileOperation;

/** An operation that a helper performs. */
export type FileOperation = readonly [name: FileOperationName, ...json: unknown[]] | HandleOperation;

/** Operations besides those of a file system. `file` is the number that the helper assigned to an open file. */
export type HandleOperation =
  | readonly ['readContent', file: number, length: number]
  | readonly ['read', file: number, position: number, length: number]
  | readonly ['write', file: number, position: number]
  | readonly ['close', file: number]
  | readonly ['discard', file: number]
  /** The request is the content, because patterns may be long. */
  | readonly ['search', session: number];

/** Restrictions that a helper enforces itself, because no mount does. */
export interface HelperTask {
  /** Paths that do not exist and must stay absent. A mount to protect them would need a mount point on the host. */
  readonly absent: readonly AbsentPath[];
  /** Mounts for the helper itself, which clients must not see. */
  readonly hidden: readonly NativePath[];
  /** The root directories of the file systems that the sandbox adds. They are read-only. */
  readonly added: readonly NativePath[];
}

/** A path that cannot be created. A directory is shown as empty and read-only. */
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

/** The head of the answer to `open`. */
export interface OpenedFile {
  readonly file: number;
  readonly part?: ReplacementPart | undefined;
}

/** The head of the answer to `readFile`; its content is the beginning of the file. `file` is null when there is no more. */
export interface OpenedContent {
  readonly size: number;
  readonly file: number | null;
}
