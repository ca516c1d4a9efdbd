import type { FileOptions } from '../backend.ts';
import { ClientError, messageWithoutHint } from '../errors.ts';

/** How far a transfer is. */
export interface TransferProgress {
  /** The source of the file that just made progress. */
  readonly path: string;
  /** Bytes of this file so far, and its size when it was opened. */
  readonly fileBytes: number;
  readonly fileSize: number;
  /** Files that are complete, and bytes of all files so far. */
  readonly files: number;
  readonly bytes: number;
}

export interface TransferOptions extends FileOptions {
  /** Called after each block of up to 1 MiB, and when a file is complete. It must not throw. */
  readonly onProgress?: (progress: TransferProgress) => void;
  /** Whether the SHA-256 of each file is compared with the file on the executor's disk. Default true. */
  readonly verify?: boolean;
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
  readonly bytes: number;
  /**
   * `sha256`: the hash of every file was compared with the file on the executor's disk. `unsupported`: the executor cannot hash, so
   * nothing was compared. `off`: not requested.
   */
  readonly verified: 'sha256' | 'unsupported' | 'off';
  /** Whether each file replaced an old one in one step. False on executors that lack it: a failure may have left a partial file. */
  readonly atomic: boolean;
  /** Symbolic links to files, whose content was transferred as a file of its own. */
  readonly followedLinks: readonly string[];
  /** Links to directories, links that lead nowhere, and what is neither a file nor a directory. */
  readonly skipped: readonly SkippedPath[];
}

/** A transfer that failed. `result` says what was transferred, and `transferred` names the files, by their source. */
export class TransferError extends ClientError {
  readonly result: TransferResult;
  readonly transferred: readonly string[];

  constructor(error: ClientError, result: TransferResult, transferred: readonly string[]) {
    const before = result.files === 1 ? '1 file was' : `${result.files} files were`;
    super(error.kind, `${messageWithoutHint(error)} (${before} transferred before)`, {
      code: error.code ?? undefined,
      data: error.data,
      hint: error.hint ?? undefined,
      retryable: error.retryable,
      cause: error,
    });
    this.result = result;
    this.transferred = transferred;
  }
}
