import { uptimeMs } from '../base/uptime.ts';
import { ProcessError } from './errors.ts';
import { DROPPED_PROCESS_RECORDS } from './limits.ts';

/** The attached client. */
export interface AttachedClient {
  /** Calls back when the client has received what was sent before that time (see `uptimeMs`); never when it is gone. */
  confirmReceived(sentBeforeMs: number, confirmed: () => void): void;
}

/** A closed process that is kept beyond its retention time because no client is attached. */
export interface KeptProcess {
  readonly retainedBytes: number;
  readonly closedAtMs: number;
  /** Forgets the process because of a limit. */
  drop(limit: string): void;
}

/** Limits what is kept while no client is attached. */
export interface ClosedProcessKeeper {
  /** May drop this process or others. */
  keep(process: KeptProcess): void;
  /** The process is no longer kept. Does nothing if it was not. */
  release(process: KeptProcess): void;
}

/** A process that was dropped while no client was attached. */
export interface DroppedProcess {
  readonly processId: string;
  readonly exitCode: number;
  readonly closedAtMs: number;
  readonly droppedAtMs: number;
  /** The setting that limits what is kept. */
  readonly limit: string;
}

/** A process that has closed, as its owner reports it. */
interface ClosedProcess {
  readonly processId: string;
  readonly exitCode: number;
  readonly retainedBytes: number;
  /** Makes the process unknown to its client. */
  forget(): void;
}

/**
 * The closed processes of one session. Each stays readable for the retention time while a client is attached. Without a client none
 * expires, but the keeper may drop some. When a client attaches, every closed process stays readable for the whole retention time, so
 * that the client can read what it missed. A client that is attached but gone, such as a laptop that sleeps, counts as none: a process
 * expires only when the client has been heard from since it closed.
 */
export class ClosedProcesses {
  /** Whether {@link unknownProcess} says that a process was dropped. */
  reportsDropped = false;
  readonly #retentionMs: number;
  readonly #keeper: ClosedProcessKeeper | null;
  /** The longest closed first. */
  readonly #closed = new Set<Entry>();
  /** The first dropped first. */
  readonly #dropped = new Map<string, DroppedProcess>();
  #client: AttachedClient | null = ALWAYS_THERE;

  /** Without a keeper nothing is dropped. */
  constructor(retentionMs: number, keeper: ClosedProcessKeeper | null) {
    this.#retentionMs = retentionMs;
    this.#keeper = keeper;
  }

  get size(): number {
    return this.#closed.size;
  }

  /** The latest dropped processes whose ids are not in use again. */
  get dropped(): readonly DroppedProcess[] {
    return [...this.#dropped.values()];
  }

  add(process: ClosedProcess): void {
    const entry: Entry = {
      process,
      retainedBytes: process.retainedBytes,
      closedAtMs: Date.now(),
      drop: (limit) => this.#drop(entry, limit),
      closedAtUptimeMs: uptimeMs(),
      expiry: undefined,
      expired: false,
    };
    this.#closed.add(entry);
    this.#startRetention(entry);
  }

  attach(client: AttachedClient): void {
    this.#client = client;
    for (const entry of this.#closed) {
      this.#release(entry);
      this.#startRetention(entry);
    }
  }

  detach(): void {
    if (this.#client === null) return;
    this.#client = null;
    for (const entry of [...this.#closed]) if (entry.expired) this.#keeper?.keep(entry);
  }

  evictOldest(): void {
    const [oldest] = this.#closed;
    if (oldest !== undefined) this.#evict(oldest);
  }

  /** A new process has this id. */
  idReused(processId: string): void {
    this.#dropped.delete(processId);
  }

  /** The error for an id that no process has. */
  unknownProcess(processId: string): ProcessError {
    const dropped = this.reportsDropped ? this.#dropped.get(processId) : undefined;
    const message =
      dropped === undefined ? `unknown process id ${processId}` : `process ${processId} ${describe(dropped)}`;
    return new ProcessError('unknownProcess', message);
  }

  /** Stops all timers and releases what is kept. */
  close(): void {
    for (const entry of this.#closed) this.#release(entry);
    this.#closed.clear();
  }

  #startRetention(entry: Entry): void {
    entry.expired = false;
    entry.expiry = setTimeout(() => this.#expire(entry), this.#retentionMs);
    entry.expiry.unref();
  }

  #expire(entry: Entry): void {
    const client = this.#client;
    entry.expired = true;
    if (client === null) this.#keeper?.keep(entry);
    client?.confirmReceived(entry.closedAtUptimeMs, () => {
      if (this.#client === client && entry.expired && this.#closed.has(entry)) this.#evict(entry);
    });
  }

  #drop(entry: Entry, limit: string): void {
    const { processId, exitCode } = entry.process;
    const [oldest] = this.#dropped.keys();
    if (oldest !== undefined && this.#dropped.size >= DROPPED_PROCESS_RECORDS) this.#dropped.delete(oldest);
    const { closedAtMs } = entry;
    this.#dropped.set(processId, { processId, exitCode, closedAtMs, droppedAtMs: Date.now(), limit });
    this.#evict(entry);
  }

  #evict(entry: Entry): void {
    this.#release(entry);
    this.#closed.delete(entry);
    entry.process.forget();
  }

  #release(entry: Entry): void {
    clearTimeout(entry.expiry);
    this.#keeper?.release(entry);
  }
}

interface Entry extends KeptProcess {
  readonly process: ClosedProcess;
  readonly closedAtUptimeMs: number;
  /** Ends the retention time. */
  expiry: NodeJS.Timeout | undefined;
  /** Whether the retention time has ended. */
  expired: boolean;
}

/** Before the first client attaches. */
const ALWAYS_THERE: AttachedClient = { confirmReceived: (_sentBeforeMs, confirmed) => confirmed() };

function describe({ exitCode, closedAtMs, droppedAtMs, limit }: DroppedProcess): string {
  const [closedAt, droppedAt] = [closedAtMs, droppedAtMs].map((ms) => new Date(ms).toISOString());
  return `exited with code ${exitCode} and closed at ${closedAt}; its output was dropped at ${droppedAt}, while no client was attached (${limit})`;
}
