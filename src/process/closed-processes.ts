import { uptimeMs } from '../base/uptime.ts';
import { ProcessError } from './errors.ts';
import { DROPPED_PROCESS_RECORDS } from './limits.ts';

/** The attached client. */
export interface AttachedClient {
  /** Calls back when the client has received what was sent before that time (see `uptimeMs`); never when it is gone. */
  confirmReceived(sentBeforeMs: number, confirmed: () => void): void;
}

/** A closed process that is kept beyond its retention time because no client has had that long to read it. */
export interface KeptProcess {
  /** Its memory. */
  readonly retainedBytes: number;
  /** Forgets the process because of a limit. */
  drop(limit: string): void;
}

/** Limits what is kept beyond the retention time. */
export interface ClosedProcessKeeper {
  /** Called when the retention time of the process has passed once. May drop this process or others. */
  keep(process: KeptProcess): void;
  /** The process is no longer kept. Does nothing if it was not. */
  release(process: KeptProcess): void;
}

/** A process that was dropped while it waited for a client. */
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
  /** How long it is kept, within the keeper's limits from the beginning. Null: as this class describes. */
  readonly retainMs: number | null;
  /** Makes the process unknown to its client. */
  forget(): void;
}

/**
 * The closed processes of one session. Each stays readable for the retention time while a client is attached. Without a client none
 * expires. When a client attaches, every closed process stays readable for the whole retention time, so that the client can read what it
 * missed. A client that is attached but gone, such as a laptop that sleeps, counts as none: a process expires only when the client has
 * been heard from since it closed. The keeper may drop every process that closed longer ago than the retention time, whether or not a
 * client has attached since. So clients that reconnect again and again keep no more than others.
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
      firstExpiry: this.#startTimer(() => this.#keepOrExpire(entry), process.retainMs ?? this.#retentionMs),
      expiry: undefined,
      expired: false,
    };
    this.#closed.add(entry);
    if (process.retainMs !== null) this.#keeper?.keep(entry);
  }

  attach(client: AttachedClient): void {
    this.#client = client;
    for (const entry of this.#closed) {
      entry.expired = false;
      clearTimeout(entry.expiry);
      entry.expiry = this.#startTimer(() => this.#expire(entry));
    }
  }

  detach(): void {
    this.#client = null;
  }

  evictOldest(): void {
    const [oldest] = this.#closed;
    if (oldest !== undefined) this.#evict(oldest);
  }

  /** Forgets a process because a client asked for it. Returns whether it was closed. */
  remove(processId: string): boolean {
    const entry = [...this.#closed].find(({ process }) => process.processId === processId);
    if (entry !== undefined) this.#evict(entry);
    return entry !== undefined;
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

  #startTimer(ended: () => void, afterMs = this.#retentionMs): NodeJS.Timeout {
    return setTimeout(ended, afterMs).unref();
  }

  /** The retention time has passed once. Another one has begun if a client has attached meanwhile. */
  #keepOrExpire(entry: Entry): void {
    if (entry.expiry === undefined) this.#expire(entry);
    if (this.#closed.has(entry)) this.#keeper?.keep(entry);
  }

  #expire(entry: Entry): void {
    const client = this.#client;
    entry.expired = true;
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
    clearTimeout(entry.firstExpiry);
    clearTimeout(entry.expiry);
    this.#keeper?.release(entry);
  }
}

interface Entry extends KeptProcess {
  readonly process: ClosedProcess;
  readonly closedAtMs: number;
  readonly closedAtUptimeMs: number;
  /** Ends the retention time that began when the process closed. */
  readonly firstExpiry: NodeJS.Timeout;
  /** Ends the retention time that began when a client attached; absent if none has since. */
  expiry: NodeJS.Timeout | undefined;
  /** Whether the latest retention time has ended. */
  expired: boolean;
}

/** Before the first client attaches. */
const ALWAYS_THERE: AttachedClient = { confirmReceived: (_sentBeforeMs, confirmed) => confirmed() };

function describe({ exitCode, closedAtMs, droppedAtMs, limit }: DroppedProcess): string {
  const [closedAt, droppedAt] = [closedAtMs, droppedAtMs].map((ms) => new Date(ms).toISOString());
  return `exited with code ${exitCode} and closed at ${closedAt}; its output was dropped at ${droppedAt}, while it waited for a client (${limit})`;
}
