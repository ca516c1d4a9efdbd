import type { ChangeQueue } from './change-queue.ts';
import type { Attributes, Entry, FileEntry, Removal } from './tree.ts';

/** The directory tree on one of the two machines. Paths are relative to its root, which is the empty path. */
export interface Side {
  /** For people: a local path, or `ENV:/path`. */
  readonly name: string;

  /** The entries of each directory, or why it could not be read. */
  list(directories: readonly string[]): Promise<readonly (readonly Named[] | Error)[]>;
  /** What a path itself is; null when there is nothing. */
  stat(path: string): Promise<Entry | null>;
  /** Whether a path itself is a directory. Costs less than {@link stat}. */
  isDirectory(path: string): Promise<boolean>;
  /** The start of a file, as bytes, one per character. Null for a file that is larger than `maxBytes`. */
  readSmall(path: string, maxBytes: number): Promise<string | null>;
  /**
   * The content of the file that `entry` describes. Throws {@link ChangedError} when it is another file or changes while it is read. A
   * block is valid until the next one is requested.
   */
  read(path: string, entry: FileEntry): AsyncIterable<Uint8Array>;
  /** The SHA-256 of each file, or the error. */
  hash(paths: readonly string[]): Promise<readonly (string | Error)[]>;
  /** Adds changes to the queue from the time when the promise resolves, except below `ignored`. Returns a function that ends it. */
  watch(ignored: readonly string[], queue: ChangeQueue): Promise<() => void>;

  /** Creates the root and the directories above it, where they are missing. */
  makeRoot(): Promise<void>;
  makeDirectory(path: string): Promise<void>;
  /** Makes a link. It may replace another link, in one step. */
  makeLink(path: string, target: string): Promise<void>;
  /** Writes a file beside the old one and replaces it in one step. A failure keeps the old file and leaves nothing. */
  replaceFile(path: string, content: Content, attributes: Attributes): Promise<void>;
  setAttributes(path: string, attributes: Attributes): Promise<void>;
  /** Removes a file, a link or an empty directory. What does not exist is no error. */
  remove(removal: Removal): Promise<void>;
}

/** The blocks of a file, and how many bytes they have unless the file changes. */
export interface Content {
  readonly size: number;
  readonly blocks: AsyncIterable<Uint8Array>;
}

/** An entry of a directory. */
export interface Named {
  readonly name: string;
  readonly entry: Entry;
}

/** A file of the source is no longer what it was when it was listed. */
export class ChangedError extends Error {
  override readonly name = 'ChangedError';

  constructor() {
    super('it changes while it is copied');
  }
}

/** Whether an entry is still the file that was listed. */
export function isSameFile(entry: Entry | null, expected: FileEntry): boolean {
  return entry?.kind === 'file' && entry.size === expected.size && entry.mtimeMs === expected.mtimeMs;
}
