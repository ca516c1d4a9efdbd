import type { FileOptions } from '../backend.ts';
import { ClientError, messageWithoutHint } from '../errors.ts';

/** How far a transfer is. */
export interface TransferProgress {
  /** The source of the file that just made progress. */
  readonly path: string;
  /** Bytes of this file so far, and its size when it was opened. */
  readonly fileBytes: number;
  readonly fileSize: number;
  /** Files that are complete, and bytes of all files so far. Neither ever decreases, nor exceeds its total. */
  readonly files: number;
  readonly bytes: number;
  /** Bytes of them that were not sent again after an interruption, of this transfer or of an earlier one. */
  readonly resumedBytes: number;
  /** How much there is to do. Null until a tree has been counted, which happens during the transfer. */
  readonly totalFiles: number | null;
  readonly totalBytes: number | null;
}

export interface TransferOptions extends FileOptions {
  /** Called after each block of up to 1 MiB, and when a file is complete. */
  readonly onProgress?: (progress: TransferProgress) => void;
  /** Whether the SHA-256 of each file is compared with the file on the executor's disk. Default true. */
  readonly verify?: boolean;
  /** Whether files, directories and links keep their modification times. Default false: they get the present time. */
  readonly keepTimes?: boolean;
  /**
   * Whether each file is flushed to the disk before it gets its name, which makes many files slow. Default false, as cp and scp do: a
   * power failure within seconds may lose files.
   */
  readonly durable?: boolean;
  /**
   * Receives a path that could not be transferred, for example because it may not be read. The transfer goes on. Without it the
   * transfer ends with the first error.
   */
  readonly onError?: (failed: SkippedPath) => void;
}

/** A path of the source that was not transferred. */
export interface SkippedPath {
  readonly path: string;
  readonly reason: string;
}

/** What a transfer did. Lists have at most 10,000 elements. */
export interface TransferResult {
  readonly files: number;
  readonly directories: number;
  /** Symbolic links that were created. */
  readonly links: number;
  readonly bytes: number;
  /**
   * Bytes of large files that were not sent again after an interruption, of this transfer or of an earlier one. `bytes` includes them.
   */
  readonly resumedBytes: number;
  /** How many paths `onError` has received. */
  readonly failed: number;
  /**
   * `sha256`: the hash of every file was compared with the file on the executor's disk. `size`: the executor cannot hash, so only the
   * sizes were compared. `off`: not requested.
   */
  readonly verified: 'sha256' | 'size' | 'off';
  /** Whether each file replaced an old one in one step. False on executors that lack it: a failure may have left a partial file. */
  readonly atomic: boolean;
  /** Symbolic links to files, whose content was transferred as a file of its own because the executor cannot create or list links. */
  readonly followedLinks: readonly string[];
  /** What is neither a file, a directory nor a link; and links that the executor cannot create, if they do not lead to a file. */
  readonly skipped: readonly SkippedPath[];
}

/** What is left of a large file that was not complete. The same transfer continues it. */
export interface UnfinishedPart {
  readonly source: string;
  /** Where it is on the receiving machine. */
  readonly path: string;
}

/** A transfer that failed. `result` says what was transferred, and `transferred` names the files, by their source. */
export class TransferError extends ClientError {
  override readonly name: string = 'TransferError';
  readonly result: TransferResult;
  readonly transferred: readonly string[];
  readonly parts: readonly UnfinishedPart[];

  constructor(
    error: ClientError,
    result: TransferResult,
    transferred: readonly string[],
    parts: readonly UnfinishedPart[],
  ) {
    const files = result.files === 1 ? '1 file was' : `${result.files} files were`;
    const before = result.files === 0 ? '' : ` (${files} transferred before)`;
    super(error.kind, `${messageWithoutHint(error)}${before}`, {
      code: error.code ?? undefined,
      data: error.data,
      hint: error.hint ?? undefined,
      retryable: error.retryable,
      cause: error,
    });
    this.result = result;
    this.transferred = transferred;
    this.parts = parts;
  }
}
