import type { FileOptions, HashOutcome } from '../../backend.ts';
import { ClientError } from '../../errors.ts';
import { TRANSFER_LISTED_PATHS, TRANSFER_RETRIES } from '../../limits.ts';
import type { PathLike } from '../../paths.ts';
import { failedWith } from '../file-errors.ts';
import type { Files } from '../files.ts';
import {
  type SkippedPath,
  TransferError,
  type TransferOptions,
  type TransferResult,
} from '../transfer-result.ts';

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
