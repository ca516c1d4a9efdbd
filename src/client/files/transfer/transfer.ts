import { notify } from '../../../base/listeners.ts';
import type { FileOptions } from '../../backend.ts';
import { ClientError, messageWithoutHint } from '../../errors.ts';
import { TRANSFER_LISTED_PATHS, TRANSFER_RETRIES } from '../../limits.ts';
import { failedWith } from '../file-errors.ts';
import {
  type SkippedPath,
  TransferError,
  type TransferOptions,
  type TransferResult,
  type UnfinishedPart,
} from '../transfer-result.ts';
import { concernsOneFile } from './local-files.ts';
import type { FileCheck, SourceItem } from './sides.ts';

/** One upload or download. Collects its result and reports its progress. */
export class Transfer {
  /** Options for the calls of this transfer. */
  readonly call: FileOptions;
  readonly keepTimes: boolean;
  readonly durable: boolean;
  readonly #options: TransferOptions;
  readonly #followedLinks: string[] = [];
  readonly #skipped: SkippedPath[] = [];
  readonly #transferred: string[] = [];
  readonly #parts = new Map<string, string>();
  #fileCount = 0;
  #directories = 0;
  #links = 0;
  #failures = 0;
  /** Bytes of complete files. */
  #bytes = 0;
  /** The bytes of the progress, which never get fewer. */
  #reportedBytes = 0;
  #resumedBytes = 0;
  #totals: { readonly files: number; readonly bytes: number } | null = null;
  #verified: TransferResult['verified'];
  #atomic = true;

  constructor(options: TransferOptions) {
    const { signal, timeoutMs, sandbox } = options;
    this.call = { signal, timeoutMs, sandbox };
    this.keepTimes = options.keepTimes ?? false;
    this.durable = options.durable ?? false;
    this.#options = options;
    this.#verified = options.verify === false ? 'off' : 'sha256';
  }

  /** Runs the transfer. Its error says what was transferred before. */
  static async run(
    options: TransferOptions,
    work: (transfer: Transfer) => Promise<void>,
  ): Promise<TransferResult> {
    const transfer = new Transfer(options);
    try {
      await work(transfer);
      return transfer.#result();
    } catch (error) {
      if (!(error instanceof ClientError)) throw error;
      const parts = Array.from(transfer.#parts, ([source, path]): UnfinishedPart => ({ source, path }));
      throw new TransferError(error, transfer.#result(), transfer.#transferred, parts);
    }
  }

  /** Whether files are compared with those of the executor. */
  get verifies(): boolean {
    return this.#verified !== 'off';
  }

  /** Whether they are compared by their hashes, as far as is known. */
  get hashes(): boolean {
    return this.#verified === 'sha256';
  }

  get reportsProgress(): boolean {
    return this.#options.onProgress !== undefined;
  }

  /** Throws ClientError of kind `aborted` when the caller's signal is aborted. */
  throwIfAborted(): void {
    const { signal } = this.#options;
    if (signal?.aborted)
      throw new ClientError('aborted', 'the transfer was aborted', { cause: signal.reason });
  }

  /**
   * Transfers one file, again if the connection was lost meanwhile and is restored. `send` reports where the content begins and the
   * bytes of each block.
   */
  async file(
    { shown, size }: Pick<SourceItem, 'shown' | 'size'>,
    send: (progress: FileProgress) => Promise<void>,
  ): Promise<void> {
    let fileBytes = 0;
    /** The most bytes that were reported of this file. A part that is sent again does not count twice. */
    let reported = 0;
    /** How much the last attempt did not have to send. */
    let resumed = 0;
    const report = () => {
      const { onProgress } = this.#options;
      // A file that grows has more bytes than were counted.
      const known = Math.min(Math.max(reported, fileBytes), size);
      this.#reportedBytes += known - reported;
      reported = known;
      if (onProgress === undefined) return;
      notify('onProgress', onProgress, {
        path: shown,
        fileBytes: reported,
        fileSize: size,
        files: this.#fileCount,
        bytes: this.#reportedBytes,
        resumedBytes: this.#resumedBytes,
        totalFiles: this.#totals?.files ?? null,
        totalBytes: this.#totals?.bytes ?? null,
      });
    };
    const progress: FileProgress = {
      start: (offset) => {
        fileBytes = offset;
        this.#resumedBytes += offset - resumed;
        resumed = offset;
        if (offset > 0) report();
      },
      add: (bytes) => {
        fileBytes += bytes;
        report();
      },
    };
    try {
      await this.again(() => send(progress));
    } catch (error) {
      this.#resumedBytes -= resumed;
      throw error;
    }
    this.#bytes += fileBytes;
    this.#fileCount++;
    remember(this.#transferred, shown);
    report();
  }

  /** Does something that may be repeated, again if the connection was lost meanwhile and is restored. */
  async again<T>(work: () => Promise<T>): Promise<T> {
    for (let attempt = 0; ; attempt++) {
      try {
        this.throwIfAborted();
        return await work();
      } catch (error) {
        if (attempt === TRANSFER_RETRIES || !failedWith(error, 'brokenPipe')) throw error;
      }
    }
  }

  /** Reports that one path could not be transferred, or throws the error if the caller does not want to go on. */
  fail(shown: string, error: unknown): void {
    const { onError } = this.#options;
    if (onError === undefined || !(error instanceof ClientError)) throw error;
    if (!failedWith(error, ...OF_ONE_PATH) && !concernsOneFile(error)) throw error;
    this.#failures++;
    notify('onError', onError, { path: shown, reason: messageWithoutHint(error) });
  }

  setTotals(files: number, bytes: number): void {
    this.#totals = { files, bytes };
  }

  addDirectory(): void {
    this.#directories++;
  }

  addLink(): void {
    this.#links++;
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

  /** Where the part of a large file is until it is complete; null when it is. */
  setPart({ shown }: SourceItem, part: string | null): void {
    if (part === null) this.#parts.delete(shown);
    else this.#parts.set(shown, part);
  }

  /** Compares a file on an executor with what was sent or received: its hash, or its size where the executor cannot hash. */
  async compare(
    shown: string,
    { sha256, bytes }: Content,
    checking: Promise<FileCheck> | null,
  ): Promise<void> {
    if (checking === null) return;
    const check = await checking;
    if (check.sha256 !== null) {
      if (check.sha256 === sha256) return;
      throw different(`the SHA-256 of ${shown} on the executor is ${check.sha256}, not ${sha256}`);
    }
    this.#verified = 'size';
    if (check.size !== bytes)
      throw different(`${shown} on the executor has ${check.size} bytes, not ${bytes}`);
  }

  #result(): TransferResult {
    return {
      files: this.#fileCount,
      directories: this.#directories,
      links: this.#links,
      bytes: this.#bytes,
      resumedBytes: this.#resumedBytes,
      failed: this.#failures,
      verified: this.#verified,
      atomic: this.#atomic,
      followedLinks: this.#followedLinks,
      skipped: this.#skipped,
    };
  }
}

/** Receives how far one file is. */
export interface FileProgress {
  /** The content from this offset on follows; what is before it is at the sink already. */
  start(offset: number): void;
  add(bytes: number): void;
}

/** What was sent or received of one file. */
interface Content {
  readonly sha256: string;
  readonly bytes: number;
}

function different(message: string): ClientError {
  return new ClientError('invalidData', message, {
    hint: 'the file was changed during the transfer, or the disk is faulty; transfer it again',
    retryable: true,
  });
}

/** The error for a file of this machine that was written or replaced during the transfer. */
export function changedWhileRead(shown: string): ClientError {
  return new ClientError('invalidData', `${shown} of this machine was changed while it was read`, {
    hint: 'transfer it again when no program writes it, or copy a snapshot of it',
    retryable: true,
  });
}

/** Failures that do not keep other files from being transferred. */
const OF_ONE_PATH = [
  'notFound',
  'permissionDenied',
  'isDirectory',
  'notDirectory',
  'exists',
  'invalidInput',
  'invalidData',
] as const;

function remember<T>(list: T[], item: T): void {
  if (list.length < TRANSFER_LISTED_PATHS) list.push(item);
}
