import type { FileOptions, HashOutcome } from '../../backend.ts';
import { ClientError, messageWithoutHint } from '../../errors.ts';
import { TRANSFER_LISTED_PATHS, TRANSFER_RETRIES } from '../../limits.ts';
import type { PathLike } from '../../paths.ts';
import { failedWith } from '../file-errors.ts';
import type { Files } from '../files.ts';

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

/** One upload or download. Collects its result and reports its progress. */
export class Transfer {
  readonly files: Files;
  /** Options for the calls of this transfer. */
  readonly call: FileOptions;
  readonly #options: TransferOptions;
  readonly #followedLinks: string[] = [];
  readonly #skipped: SkippedPath[] = [];
  readonly #transferred: string[] = [];
  #fileCount = 0;
  #directories = 0;
  #bytes = 0;
  #verified: TransferResult['verified'];
  #atomic = true;

  constructor(files: Files, options: TransferOptions) {
    const { signal, timeoutMs, sandbox } = options;
    this.files = files;
    this.call = { signal, timeoutMs, sandbox };
    this.#options = options;
    this.#verified = options.verify === false ? 'off' : 'sha256';
  }

  /** Runs the transfer. Its error says what was transferred before. */
  static async run(
    files: Files,
    options: TransferOptions,
    work: (transfer: Transfer) => Promise<void>,
  ): Promise<TransferResult> {
    const transfer = new Transfer(files, options);
    try {
      await work(transfer);
      return transfer.#result();
    } catch (error) {
      if (!(error instanceof ClientError)) throw error;
      throw new TransferError(error, transfer.#result(), transfer.#transferred);
    }
  }

  /** Whether files are hashed. */
  get verifies(): boolean {
    return this.#verified === 'sha256';
  }

  /** Throws ClientError of kind `aborted` when the caller's signal is aborted. */
  throwIfAborted(): void {
    const { signal } = this.#options;
    if (signal?.aborted)
      throw new ClientError('aborted', 'the transfer was aborted', { cause: signal.reason });
  }

  /**
   * Transfers one file, again from its start if the connection was lost meanwhile and is restored. `send` receives a function to call
   * with the number of bytes of each block, and returns the size of the file.
   */
  async file(
    path: string,
    size: number,
    send: (onBytes: (bytes: number) => void) => Promise<void>,
  ): Promise<void> {
    for (let attempt = 0; ; attempt++) {
      let fileBytes = 0;
      const report = () =>
        this.#options.onProgress?.({
          path,
          fileBytes,
          fileSize: size,
          files: this.#fileCount,
          bytes: this.#bytes,
        });
      try {
        this.throwIfAborted();
        await send((bytes) => {
          fileBytes += bytes;
          this.#bytes += bytes;
          report();
        });
        this.#fileCount++;
        remember(this.#transferred, path);
        report();
        return;
      } catch (error) {
        this.#bytes -= fileBytes;
        if (attempt === TRANSFER_RETRIES || !failedWith(error, 'brokenPipe')) throw error;
      }
    }
  }

  addDirectory(): void {
    this.#directories++;
  }

  followLink(path: string): void {
    remember(this.#followedLinks, path);
  }

  skip(path: string, reason: string): void {
    remember(this.#skipped, { path, reason });
  }

  /** Some file could not be replaced in one step. */
  notAtomic(): void {
    this.#atomic = false;
  }

  /** Compares the hash of a file on the executor with that of the bytes that were sent or received. */
  async verify(uri: string, name: PathLike, sha256: string): Promise<void> {
    if (!this.verifies) return;
    let outcome: HashOutcome;
    try {
      [outcome] = (await this.files.fileSystem.hash([uri], this.call)) as [HashOutcome];
    } catch (error) {
      if (!failedWith(error, 'unsupported')) throw error;
      this.#verified = 'unsupported';
      return;
    }
    if (outcome.error !== undefined) throw outcome.error;
    if (outcome.sha256 === sha256) return;
    throw new ClientError(
      'invalidData',
      `the SHA-256 of ${name} on the executor is ${outcome.sha256}, not ${sha256}`,
      {
        hint: 'the file was changed during the transfer, or the disk is faulty; transfer it again',
        retryable: true,
      },
    );
  }

  #result(): TransferResult {
    return {
      files: this.#fileCount,
      directories: this.#directories,
      bytes: this.#bytes,
      verified: this.#verified,
      atomic: this.#atomic,
      followedLinks: this.#followedLinks,
      skipped: this.#skipped,
    };
  }
}

function remember<T>(list: T[], item: T): void {
  if (list.length < TRANSFER_LISTED_PATHS) list.push(item);
}
