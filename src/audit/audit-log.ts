import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import { withTimeout } from '../base/with-timeout.ts';
import { type Logger, safeJson } from '../observability/log.ts';
import { VERSION } from '../observability/version.ts';
import { internalError, type RpcError } from '../protocol/errors.ts';
import { AuditFile } from './audit-file.ts';
import { type ChainEnd, hashLine } from './chain.ts';
import {
  AUDIT_CLOSE_MS,
  AUDIT_PENDING_LOW_PRIORITY_RECORDS,
  AUDIT_PENDING_RECORDS,
  AUDIT_RETRY_MS,
  AUDIT_STALL_MS,
  AUDIT_TEXT_CHARS,
} from './limits.ts';

/** Options of an audit log. */
export interface AuditOptions {
  readonly path: string;
  readonly fsync: boolean;
  /** Whether new work is refused (`stop`) or goes on while the log cannot be written. */
  readonly onError: 'stop' | 'continue';
  readonly log: Logger;
}

/** The contents of a record. The log adds the time and the position in the chain. */
export interface AuditRecord {
  readonly event: string;
  readonly [field: string]: unknown;
}

/**
 * An append-only file of JSON lines in which each line contains the hash of the previous one. Records of the same event loop turn share
 * one write. When a write fails, the log keeps the records and retries; `onError` decides whether new work is refused meanwhile.
 */
export class AuditLog {
  readonly #options: AuditOptions;
  #file: AuditFile;
  /** The file before a rotation, until the new one has the records that it has only in part. */
  #replaced: { readonly file: AuditFile; readonly repeatedBytes: number } | null = null;
  #end: ChainEnd;
  #pending: Pending[] = [];
  #batch: Batch | null = null;
  /** Why the log cannot be written at present; null when it can. */
  #writeError: string | null = null;
  /** Records lost since the last `lost` record. */
  #lost = 0;
  #totalLost = 0;
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

  /** Opens the log and writes an `opened` record. Throws when the log cannot be opened or written. */
  static async open(options: AuditOptions): Promise<AuditLog> {
    const file = await AuditFile.open(options.path, options);
    const log = new AuditLog(options, file);
    try {
      // Terminate an incomplete line, so that the next record starts on its own line.
      if (file.tail.torn) await file.append(Buffer.from('\n'));
      const first = file.tail.hash === null ? { genesis: randomBytes(32).toString('hex') } : {};
      void log.append({ event: 'opened', ...first, ...serverFacts(), torn: file.tail.torn }).catch(() => {});
      await log.#flushing;
      if (log.#writeError !== null) throw new Error(log.#writeError);
      return log;
    } catch (error) {
      clearTimeout(log.#retry);
      await file.close();
      throw error;
    }
  }

  /** Numbers of written, pending and lost records, for metrics. */
  get counts(): { readonly written: number; readonly pending: number; readonly lost: number } {
    return { written: this.#written, pending: this.#pending.length, lost: this.#totalLost };
  }

  /** Throws RpcError while new work must be refused. */
  requireWritable(): void {
    if (this.#writeError !== null && this.#options.onError === 'stop') throw this.#refusal(this.#writeError);
  }

  /**
   * Appends a record. Resolves when it is written. When it cannot be written and `onError` is `stop`, rejects with RpcError; the log
   * still keeps the record and writes it as soon as possible. Clients can cause low-priority records without a limit, so fewer of them
   * are kept. That leaves capacity for the exit records of running programs.
   */
  append(record: AuditRecord, priority: 'normal' | 'low' = 'normal'): Promise<void> {
    if (this.#closed) return Promise.resolve();
    if (
      this.#pending.length >=
      (priority === 'normal' ? AUDIT_PENDING_RECORDS : AUDIT_PENDING_LOW_PRIORITY_RECORDS)
    ) {
      this.#lost++;
      this.#totalLost++;
      return this.#settleUnkept(this.#writeError ?? 'too many records are pending');
    }
    return new Promise((resolve, reject) => {
      const entry = { record, time: new Date().toISOString(), resolve, reject };
      this.#pending.push(entry);
      if (this.#writeError !== null) this.#settle([entry], this.#writeError);
      else this.#flushing ??= this.#flush();
    });
  }

  /**
   * Continues in a new file at the same path after the old file was moved away (log rotation). Throws when the new file cannot be
   * opened. Concurrent calls run one after the other: each must see the file that the previous call switched to.
   */
  reopen(): Promise<void> {
    const earlier = this.#reopening.catch(() => {});
    this.#reopening = earlier.then(() => this.#reopen());
    return this.#reopening;
  }

  /** Writes the pending records, for a limited time, and closes the file. */
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
    if (this.#writeError !== null) await settle(this.#retryNow());
    else if (this.#flushing !== null) await settle(this.#flushing);
    await settle(this.#closeReplaced(0));
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
    // The new file has the records of a batch that the old file received only in part.
    const { waiting, written } = this.#batch ?? { waiting: [], written: 0 };
    this.#batch = null;
    this.#pending.unshift(withoutCaller({ event: 'continued', ...serverFacts() }), ...waiting);
    await this.#closeReplaced(0);
    this.#replaced = { file: old, repeatedBytes: written };
    await this.#flush();
  }

  /** Closes the file before a rotation. Removes the end that the new file repeats, so that both make one chain. */
  async #closeReplaced(repeatedBytes = this.#replaced?.repeatedBytes ?? 0): Promise<void> {
    const file = this.#replaced?.file;
    this.#replaced = null;
    if (file === undefined) return;
    try {
      if (repeatedBytes > 0) await file.removeLast(repeatedBytes);
    } catch (error) {
      const reason = (error as Error).message;
      this.#options.log.warn('the end of the old audit log is incomplete', { reason });
    }
    await file.close().catch(() => {});
  }

  async #flush(): Promise<void> {
    // Records of the same event loop turn share one write.
    await null;
    try {
      while (this.#batch !== null || this.#pending.length > 0 || this.#replaced !== null) {
        if (this.#batch === null && this.#pending.length === 0) {
          await this.#closeReplaced();
        } else {
          this.#batch ??= this.#nextBatch();
          await this.#writeBatch(this.#batch);
        }
      }
      this.#recovered();
    } catch (error) {
      this.#failed((error as Error).message);
    } finally {
      this.#flushing = null;
    }
  }

  async #writeBatch(batch: Batch): Promise<void> {
    const stalled = setTimeout(() => this.#blockWrites(STALLED), AUDIT_STALL_MS);
    try {
      while (batch.lines.length > 0) {
        const written = await this.#file.append(batch.lines);
        batch.lines = batch.lines.subarray(written);
        batch.written += written;
      }
      await this.#file.flush();
    } finally {
      clearTimeout(stalled);
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
      waiting.push(withoutCaller({ event: 'lost', records: this.#lost }));
      this.#lost = 0;
    }
    let { nextSeq, hash } = this.#end;
    const lines = waiting.map(({ record, time }) => {
      const line = Buffer.from(safeJson({ seq: nextSeq++, time, ...record, prev: hash }, AUDIT_TEXT_CHARS));
      hash = hashLine(line);
      return line;
    });
    const joined = Buffer.concat(lines.flatMap((line) => [line, NEWLINE]));
    return { lines: joined, written: 0, end: { nextSeq, hash }, waiting };
  }

  #failed(reason: string): void {
    this.#blockWrites(reason);
    if (this.#closed) return;
    this.#retry = setTimeout(() => void this.#retryNow(), AUDIT_RETRY_MS);
    this.#retry.unref();
  }

  /** Settles all waiting callers, because the disk may never recover. The records stay pending. */
  #blockWrites(reason: string): void {
    if (this.#writeError === null) {
      this.#options.log.error('the audit log cannot be written', { reason, onError: this.#options.onError });
    }
    this.#writeError = reason;
    this.#settle([...(this.#batch?.waiting ?? []), ...this.#pending], reason);
  }

  #recovered(): void {
    if (this.#writeError !== null) this.#options.log.warn('the audit log can be written again');
    this.#writeError = null;
  }

  #retryNow(): Promise<void> {
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

  #settleUnkept(reason: string): Promise<void> {
    return this.#options.onError === 'continue' ? Promise.resolve() : Promise.reject(this.#refusal(reason));
  }

  #refusal(reason: string): RpcError {
    return internalError(
      `the audit log cannot be written (${reason}); new work is refused until it can (auditOnError)`,
    );
  }
}

interface Batch {
  /** The bytes that are not written yet. */
  lines: Buffer;
  /** How many bytes are. */
  written: number;
  /** The end of the chain after this batch. */
  readonly end: ChainEnd;
  readonly waiting: readonly Pending[];
}

interface Pending {
  readonly record: AuditRecord;
  readonly time: string;
  /** May be called several times; only the first call has an effect. */
  resolve(): void;
  reject(error: Error): void;
}

const STALLED = 'the disk does not respond';
const NEWLINE = Buffer.from('\n');

/** A record of the log itself, for which no caller waits. */
function withoutCaller(record: AuditRecord): Pending {
  return { record, time: new Date().toISOString(), resolve: () => {}, reject: () => {} };
}

function serverFacts() {
  return { version: VERSION, pid: process.pid, host: hostname() };
}
