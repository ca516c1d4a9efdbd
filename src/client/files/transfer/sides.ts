import type { NewAttributes } from '../../backend.ts';

/** The SHA-256 and the size of a file on the disk of an executor. The hash is null where the executor cannot hash. */
export interface FileCheck {
  readonly sha256: string | null;
  readonly size: number;
}

/** A file, directory or link of the source of a transfer. */
export interface SourceItem {
  /** The path below the top, percent-encoded and separated by slashes. Empty for the top itself. */
  readonly relative: string;
  /** The path for people. */
  readonly shown: string;
  readonly kind: 'file' | 'directory' | 'symlink' | 'other';
  readonly size: number;
  /** The permission bits; null where the source does not report them. */
  readonly mode: number | null;
  readonly modifiedAtMs: number | null;
  /** Where a link leads to, percent-encoded. */
  readonly target: string | null;
  /** What the target of a link is. */
  readonly targetKind?: 'file' | 'directory' | 'other' | undefined;
}

/** Where a transfer reads. */
export interface TransferSource {
  readonly isLocal: boolean;
  /** What the source is. A link is followed. */
  top(): Promise<SourceItem>;
  /** Everything below the top, parents before their contents. Follows no link. `onError` gets what could not be read. */
  below(onError: (shown: string, error: unknown) => void): AsyncIterable<SourceItem>;
  readWhole(item: SourceItem): Promise<Uint8Array>;
  /** A block is valid until the one after the next is requested. */
  read(item: SourceItem, offset: number): AsyncIterable<Uint8Array>;
  /** What is on the disk of the source; null where the source is this machine, whose disk was just read. */
  check(item: SourceItem): Promise<FileCheck> | null;
  /**
   * Of this machine: whether the file did not change while it was read. Of an executor: whether its size and modification time are still
   * those of the item.
   */
  isUnchanged(item: SourceItem): Promise<boolean>;
}

/** What an interrupted transfer has left of a large file. */
export interface UnfinishedFile {
  readonly shown: string;
  readonly size: number;
  /** Reads it, where it is on this machine; else null. */
  blocks(): AsyncIterable<Uint8Array> | null;
  /** What it is on the disk of the executor; null where it is on this machine. */
  check(): Promise<FileCheck> | null;
}

/**
 * Returns where the content of a file begins and its bytes from there on. `sha256` is called at the end of a whole file by a sink that
 * compares it before the file gets its name.
 */
export type ContentFrom = (unfinished: UnfinishedFile | null) => Promise<{
  readonly offset: number;
  readonly content: AsyncIterable<Uint8Array>;
  readonly sha256: () => string;
}>;

/** Where a transfer writes. Paths are relative to the target and percent-encoded; the target itself is the empty path. */
export interface TransferSink {
  readonly isLocal: boolean;
  /** The path for people. */
  shown(relative: string): string;
  /** Creates the directory in which the target is, if it is missing. */
  makeParent(): Promise<void>;
  /** Creates a directory. Returns false if it existed. */
  makeDirectory(relative: string, mode: number | null): Promise<boolean>;
  /** Replaces a file in one step, as far as the sink can. */
  putWhole(relative: string, bytes: Uint8Array, attributes: NewAttributes): Promise<void>;
  /** The same for a large file. With a key, what was written is kept after a failure, and continued. */
  putLarge(
    relative: string,
    content: ContentFrom,
    attributes: NewAttributes,
    resumeKey: string | undefined,
  ): Promise<void>;
  /** Creates a link, or replaces a file or link by it. */
  putLink(relative: string, target: string, attributes: NewAttributes): Promise<void>;
  setAttributes(relative: string, attributes: NewAttributes): Promise<void>;
  /** What is on the disk of the sink; null where the sink is this machine. */
  check(relative: string): Promise<FileCheck> | null;
}
