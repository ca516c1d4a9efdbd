import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import { withTimeout } from '../../../base/with-timeout.ts';
import { type Logger, safeJson } from '../../../observability/log.ts';
import { internalError, type RpcError } from '../../../protocol/errors.ts';
import { VERSION } from '../../version.ts';
import { AuditFile } from './audit-file.ts';
import { type ChainEnd, hashLine } from './chain.ts';
import {
  AUDIT_CLOSE_MS,
  AUDIT_PENDING_NEWS,
  AUDIT_PENDING_RECORDS,
  AUDIT_RETRY_MS,
  AUDIT_STALL_MS,
  AUDIT_TEXT_CHARS,
} from './limits.ts';

/** How an audit log is kept. */
export interface AuditOptions {
  readonly path: string;
  readonly fsync: boolean;
  /** Whether new work is refused while nothing can be written. */
  readonly onError: 'stop' | 'continue';
  readonly log: Logger;
}

/** What is recorded, beside the time and the place in the chain. */
export interface AuditRecord {
  readonly event: string;
  readonly [field: string]: unknown;
}

/**
 * An append-only file of JSON lines in which each line carries the hash of the one before. Records that come together are written
 * together. A record that cannot be written is kept and tried again; whether new work waits for that is configured.
 */
export class AuditLog {
  readonly #options: AuditOptions;
  #file: AuditFile;
  #end: ChainEnd;
  #pending: Pending[] = [];
  #batch: Batch | null = null;
  #obstacle: string | null = null;
  /** Since the last line that told of them, and in all. */
  #lost = 0;
  #lostInAll = 0;
  #written = 0;
  #flushing: Promise<void> | null = null;
  #retry: NodeJS.Timeout | undefined;
  #reopening: Promise<void> = Promise.resolve();
  #closed = false;

  private constructor(options: AuditOptions, file: AuditFile) {
    this.#options = options;
    this.#file = file;
    this.#end = file.tail;
  }

  /** Opens the log and records that. Throws when it cannot be opened or written. */
  static async open(options: AuditOptions): Promise<AuditLog> {
    const file = await AuditFile.open(options.path, options);
    const log = new AuditLog(options, file);
    try {
      // What was left incomplete is ended, so that it spoils no other line.
      if (file.tail.torn) await file.append(Buffer.from('\n'));
      const first = file.tail.hash === null ? { genesis: randomBytes(32).toString('hex') } : {};
      void log.append({ event: 'opened', ...first, ...serverFacts(), torn: file.tail.torn }).catch(() => {});
      await log.#flushing;
      if (log.#obstacle !== null) throw new Error(log.#obstacle);
      return log;
    } catch (error) {
      clearTimeout(log.#retry);
      await file.close();
      throw error;
    }
  }

  /** How many records have been written, wait, and were lost, for metrics. */
  get counts(): { readonly written: number; readonly pending: number; readonly lost: number } {
    return { written: this.#written, pending: this.#pending.length, lost: this.#lostInAll };
  }

  /** Throws RpcError while new work must not begin. */
  requireWritable(): void {
    if (this.#obstacle !== null && this.#options.onError === 'stop') throw this.#refusal(this.#obstacle);
  }

  /**
   * Records something. Resolves when it is written; rejects with RpcError when it cannot be and work stops for that. It is then
   * still kept and written as soon as possible; but of news, which clients can make without end, only so much is kept that there
   * is room for the ends of what runs.
   */
  append(record: AuditRecord, kind: 'work' | 'news' = 'work'): Promise<void> {
    if (this.#closed) return Promise.resolve();
    if (this.#pending.length >= (kind === 'work' ? AUDIT_PENDING_RECORDS : AUDIT_PENDING_NEWS)) {
      this.#lost++;
      this.#lostInAll++;
      return this.#settleWithout(this.#obstacle ?? 'too many records wait');
    }
    return new Promise((resolve, reject) => {
      const entry = { record, time: new Date().toISOString(), resolve, reject };
      this.#pending.push(entry);
      if (this.#obstacle !== null) this.#settle([entry], this.#obstacle);
      else this.#flushing ??= this.#flush();
    });
  }

  /**
   * Goes on in a new file of the same name when the old one was moved away. Throws when that cannot be opened. Who asks twice is served
   * one after the other, so that the second does not open for itself what the first goes on in.
   */
  reopen(): Promise<void> {
    const earlier = this.#reopening.catch(() => {});
    this.#reopening = earlier.then(() => this.#reopen());
    return this.#reopening;
  }

  /** Writes what is left, for a limited time, and closes the file. */
  async close(): Promise<void> {
    if (this.#closed) return;
    void this.append({ event: 'closed' }).catch(() => {});
    this.#closed = true;
    clearTimeout(this.#retry);
    const settle = (work: Promise<void>) =>
      withTimeout(
        work.catch(() => {}),
        AUDIT_CLOSE_MS,
      );
    if (this.#obstacle !== null) await settle(this.#tryAgain());
    else if (this.#flushing !== null) await settle(this.#flushing);
    await settle(this.#file.close());
  }

  async #reopen(): Promise<void> {
    const file = await AuditFile.open(this.#options.path, this.#options);
    if (await file.isSameAs(this.#file)) {
      await file.close();
      return;
    }
    if (file.tail.hash !== null) {
      await file.close();
      throw new Error('the new file is not empty');
    }
    while (this.#flushing !== null) await this.#flushing;
    clearTimeout(this.#retry);
    this.#flushing = this.#switchTo(file);
    await this.#flushing;
  }

  async #switchTo(file: AuditFile): Promise<void> {
    const old = this.#file;
    this.#file = file;
    // What the old file did not take whole stands in the new one from its beginning.
    const unfinished = this.#batch?.waiting ?? [];
    this.#batch = null;
    this.#pending.unshift(settled({ event: 'continued', ...serverFacts() }), ...unfinished);
    await old.close().catch(() => {});
    await this.#flush();
  }

  async #flush(): Promise<void> {
    // Records of the same turn share one write.
    await null;
    try {
      while (this.#batch !== null || this.#pending.length > 0) {
        this.#batch ??= this.#nextBatch();
        await this.#writeBatch(this.#batch);
      }
      this.#recovered();
    } catch (error) {
      this.#failed((error as Error).message);
    } finally {
      this.#flushing = null;
    }
  }

  async #writeBatch(batch: Batch): Promise<void> {
    const watchdog = setTimeout(() => this.#obstruct(STALLED), AUDIT_STALL_MS);
    try {
      while (batch.lines.length > 0) {
        batch.lines = batch.lines.subarray(await this.#file.append(batch.lines));
      }
      await this.#file.settle();
    } finally {
      clearTimeout(watchdog);
    }
    this.#batch = null;
    this.#end = batch.end;
    this.#written += batch.waiting.length;
    for (const { resolve } of batch.waiting) resolve();
  }

  #nextBatch(): Batch {
    const waiting = this.#pending;
    this.#pending = [];
    if (this.#lost > 0) {
      waiting.push(settled({ event: 'lost', records: this.#lost }));
      this.#lost = 0;
    }
    let { nextSeq, hash } = this.#end;
    const lines = waiting.map(({ record, time }) => {
      const line = Buffer.from(safeJson({ seq: nextSeq++, time, ...record, prev: hash }, AUDIT_TEXT_CHARS));
      hash = hashLine(line);
      return line;
    });
    const joined = Buffer.concat(lines.flatMap((line) => [line, NEWLINE]));
    return { lines: joined, end: { nextSeq, hash }, waiting };
  }

  #failed(reason: string): void {
    this.#obstruct(reason);
    if (this.#closed) return;
    this.#retry = setTimeout(() => void this.#tryAgain(), AUDIT_RETRY_MS);
    this.#retry.unref();
  }

  /** Nobody is kept waiting for a disk that may never come back; the records stay. */
  #obstruct(reason: string): void {
    if (this.#obstacle === null) {
      this.#options.log.error('the audit log cannot be written', { reason, onError: this.#options.onError });
    }
    this.#obstacle = reason;
    this.#settle([...(this.#batch?.waiting ?? []), ...this.#pending], reason);
  }

  #recovered(): void {
    if (this.#obstacle !== null) this.#options.log.warn('the audit log can be written again');
    this.#obstacle = null;
  }

  #tryAgain(): Promise<void> {
    clearTimeout(this.#retry);
    this.#flushing ??= this.#flush();
    return this.#flushing;
  }

  #settle(entries: readonly Pending[], reason: string): void {
    for (const { resolve, reject } of entries) {
      if (this.#options.onError === 'continue') resolve();
      else reject(this.#refusal(reason));
    }
  }

  #settleWithout(reason: string): Promise<void> {
    return this.#options.onError === 'continue' ? Promise.resolve() : Promise.reject(this.#refusal(reason));
  }

  #refusal(reason: string): RpcError {
    return internalError(
      `the audit log cannot be written (${reason}); new work is refused until it can (auditOnError)`,
    );
  }
}

interface Batch {
  /** What is left to be written. */
  lines: Buffer;
  /** Where the chain will end with them. */
  readonly end: ChainEnd;
  readonly waiting: readonly Pending[];
}

interface Pending {
  readonly record: AuditRecord;
  readonly time: string;
  /** May be called several times; only the first counts. */
  resolve(): void;
  reject(error: Error): void;
}

const STALLED = 'the disk does not answer';
const NEWLINE = Buffer.from('\n');

function settled(record: AuditRecord): Pending {
  return { record, time: new Date().toISOString(), resolve: () => {}, reject: () => {} };
}

function serverFacts() {
  return { version: VERSION, pid: process.pid, host: hostname() };
}
