import { ClosedProcesses, type ClosedProcessKeeper } from './closed-processes.ts';
import { ProcessError } from './errors.ts';
import { START_BEFORE_TERMINATE_MS } from './limits.ts';
import { ManagedProcess, type ProcessListener, type SandboxHooks } from './managed-process.ts';
import { identityBytes, listed, type ProcessSummary, summarize } from './process-summary.ts';
import type { RunLimits } from './resources/resource-limits.ts';
import type { RetentionLimits } from './retained-stream.ts';
import { drawScreenFor } from './screen-thread.ts';
import type { Spawner, SpawnSpec } from './spawn/spawner.ts';
import { releaseSandbox, type StartedProgram, startProgram, type WrapInSandbox } from './start-program.ts';
import type { TerminateMode } from './termination.ts';

/** Limits of one set of processes. */
export interface ProcessManagerOptions {
  readonly maxProcesses: number;
  /** Whose processes they are, for errors. Default: `session`. */
  readonly holder?: string;
  /** How long a closed process stays readable and keeps its id while a client is attached. */
  readonly closedRetentionMs: number;
  /** Limits what is kept beyond the retention time; no limits when absent. */
  readonly keeper?: ClosedProcessKeeper;
}

/** Follows one process of a manager, from its reserved id to its removal. */
export interface ProcessObserver {
  /** Whether the output is not read at first. */
  readonly paused: boolean;
  /** The id is reserved and the start begins. */
  reserved(): void;
  /** The program runs. No event has been reported yet. */
  started(process: ManagedProcess): void;
  /** The id is free again: the start failed, or the manager has forgotten the process. */
  removed(): void;
}

/** A request to start a program. */
export interface StartRequest {
  readonly processId: string;
  readonly spec: SpawnSpec;
  readonly retention: RetentionLimits;
  /** Receives all events of the process. */
  readonly listener: ProcessListener;
  /** The program starts after this. Its id is reserved immediately. */
  readonly after?: Promise<void> | null;
  /** Limits that end the program; none when absent. */
  readonly limits?: RunLimits;
  /** Builds the sandbox; the program runs unsandboxed when absent. */
  readonly wrapInSandbox?: WrapInSandbox | null;
  readonly observer?: ProcessObserver;
  /** How long it stays readable after it has closed. The keeper's limits apply from the beginning. Default: as the manager's options say. */
  readonly retainMs?: number | null;
}

/** The processes of one session, or the detached processes of one owner, by the ids that their client chose. */
export class ProcessManager {
  readonly #spawner: Spawner;
  readonly #options: ProcessManagerOptions;
  readonly #entries = new Map<string, Entry>();
  /** Those of them that are closed. */
  readonly closed: ClosedProcesses;
  readonly #drawScreen = drawScreenFor(this);
  #closing = false;

  constructor(spawner: Spawner, options: ProcessManagerOptions) {
    this.#spawner = spawner;
    this.#options = options;
    this.closed = new ClosedProcesses(options.closedRetentionMs, options.keeper ?? null);
  }

  /** Starts a program. Reserves the id immediately and frees it when the start fails. */
  async start(request: StartRequest): Promise<void> {
    const entry = this.#reserve(request);
    entry.starting = this.#launch(entry, request).finally(entry.settle);
    try {
      await entry.starting;
    } catch (error) {
      this.#remove(entry);
      throw error;
    }
  }

  /**
   * Waits for a start in progress and returns the process; undefined when there is none. This, {@link get} and {@link terminate}
   * take equally many turns of the event loop, so requests that arrive together are carried out in their order.
   */
  async find(processId: string): Promise<ManagedProcess | undefined> {
    const entry = this.#entries.get(processId);
    await entry?.settled;
    return entry?.process ?? undefined;
  }

  /** Like {@link find}, but throws when there is no such process. */
  async get(processId: string): Promise<ManagedProcess> {
    const entry = this.#entries.get(processId);
    await entry?.settled;
    if (!entry?.process) throw this.closed.unknownProcess(processId);
    return entry.process;
  }

  /**
   * Ends a process. Returns whether it was running. A start in progress gets a short time to finish, so that it is answered in
   * the order of the client's requests. Then it is cancelled.
   */
  async terminate(processId: string, mode: TerminateMode): Promise<boolean> {
    const entry = this.#entries.get(processId);
    const cancelTimer =
      entry?.process === null ? setTimeout(() => this.#cancel(entry), START_BEFORE_TERMINATE_MS) : undefined;
    const process = await this.find(processId);
    clearTimeout(cancelTimer);
    return process?.terminate(mode) ?? entry?.cancel.signal.aborted ?? false;
  }

  /** Removes a process that has closed, and its output. Throws ProcessError for any other. */
  async forget(processId: string): Promise<void> {
    const process = await this.get(processId);
    if (this.closed.remove(processId)) return;
    // Another request has removed it meanwhile.
    if (process.closed) throw this.closed.unknownProcess(processId);
    throw new ProcessError(
      'stillRunning',
      process.exitCode === null
        ? `process ${processId} is running; terminate it first`
        : `process ${processId} has exited, but other programs still have its output open; terminate it first`,
    );
  }

  /**
   * Moves a process that has been started to another manager, which then limits how long it is kept. `commit` is called before anything
   * changes; what it throws cancels the move. Throws ProcessError when the process has closed or is unknown, and when the other
   * manager is full or ends.
   */
  move(processId: string, to: ProcessManager, moved: MovedProcess, commit: () => void): void {
    const entry = this.#entries.get(processId);
    if (!entry?.process) throw this.closed.unknownProcess(processId);
    if (entry.process.closed) {
      throw new ProcessError('hasClosed', `process ${processId} has ended; its lifetime cannot change`);
    }
    if (this.#closing) throw sessionEnding('its programs end with it');
    if (to !== this) to.#requireSlot();
    commit();
    entry.retainMs = moved.retainMs;
    if (to === this) return;
    this.#entries.delete(processId);
    entry.processId = moved.processId;
    entry.manager = to;
    to.#entries.set(moved.processId, entry);
  }

  /** Describes a process for a listing; undefined when there is none. */
  summary(processId: string): ProcessSummary | undefined {
    const entry = this.#entries.get(processId);
    return entry && summarize(entry);
  }

  /** Whether no process runs or is being started. */
  get idle(): boolean {
    return this.#entries.size === this.closed.size;
  }

  /** Whether it has no process, not even one that has closed. */
  get isEmpty(): boolean {
    return this.#entries.size === 0;
  }

  /** Signals every process without waiting. Cancels starts in progress and rejects later ones. */
  signalAll(signal: number): void {
    this.#closing = true;
    for (const { process, cancel } of this.#entries.values()) {
      if (process === null) cancel.abort();
      else process.requestEnd(signal);
    }
  }

  /** Resolves when every process has exited and its output is read, or when `signal` aborts. */
  async allClosed(signal: AbortSignal): Promise<void> {
    const live = [...this.#entries.values()].map(({ process }) => process?.wait('closed', null, signal));
    await Promise.all(live);
  }

  /** Kills and forgets all processes. Later starts are rejected. */
  async close(): Promise<void> {
    this.#closing = true;
    const entries = [...this.#entries.values()];
    for (const entry of entries) {
      entry.process?.setPaused(false);
      entry.cancel.abort();
    }
    this.closed.close();
    await Promise.all(entries.map(({ process }) => (process?.closed ? process.forget() : process?.kill())));
    await Promise.all(entries.map((entry) => entry.starting?.catch(() => undefined)));
    for (const entry of entries) this.#remove(entry);
  }

  #reserve({ processId, spec, observer = UNOBSERVED, retainMs = null }: StartRequest): Entry {
    if (this.#closing) throw sessionEnding();
    if (this.#entries.has(processId))
      throw new ProcessError('duplicateProcess', `process ${processId} already exists`);
    this.#requireSlot();
    const entry: Entry = {
      processId,
      program: listed(spec),
      observer,
      cancel: new AbortController(),
      startedAtMs: Date.now(),
      ...settling(),
      process: null,
      starting: null,
      manager: this,
      retainMs,
    };
    this.#entries.set(processId, entry);
    this.closed.idReused(processId);
    observer.reserved();
    return entry;
  }

  /** Evicts a closed process if all slots are taken. Throws ProcessError when none is free, and when this manager ends. */
  #requireSlot(): void {
    if (this.#closing) throw sessionEnding();
    if (this.#entries.size >= this.#options.maxProcesses) this.closed.evictOldest();
    if (this.#entries.size >= this.#options.maxProcesses) {
      throw new ProcessError(
        'tooManyProcesses',
        `this ${this.#options.holder ?? 'session'} has ${this.#entries.size} running processes, the configured maximum (maxProcessesPerConnection)`,
      );
    }
  }

  /** The stages of a start: wait for predecessors, sandbox and spawn, supervise, register. */
  async #launch(entry: Entry, request: StartRequest): Promise<void> {
    if (request.after) await request.after;
    const started = await this.#startProgram(entry, request);
    const process = this.#supervise(entry, request, started);
    entry.process = process;
    entry.observer.started(process);
    process.begin(entry.observer.paused);
  }

  async #startProgram(entry: Entry, { spec, wrapInSandbox }: StartRequest): Promise<StartedProgram> {
    const { signal } = entry.cancel;
    try {
      return await startProgram(spec, wrapInSandbox ?? null, this.#spawner, signal);
    } catch (error) {
      throw error === signal.reason ? cancelled(entry.processId) : error;
    }
  }

  #supervise(
    entry: Entry,
    { spec, listener, retention, limits }: StartRequest,
    started: StartedProgram,
  ): ManagedProcess {
    const events: ProcessListener = {
      output: (seq, stream, bytes) => listener.output(seq, stream, bytes),
      exited: (...event) => listener.exited(...event),
      closed: (seq, reason) => {
        listener.closed(seq, reason);
        entry.manager.#hasClosed(entry);
      },
    };
    const { io } = spec;
    const size = io.kind === 'pty' ? { rows: io.rows, cols: io.cols } : null;
    const hooks = sandboxHooks(started);
    return new ManagedProcess(started.child, retention, events, limits, hooks, size, this.#drawScreen);
  }

  /** Cancels a start and frees its id. */
  #cancel(entry: Entry): void {
    entry.cancel.abort();
    entry.settle();
    this.#remove(entry);
  }

  /** Frees the id, unless another process has it. */
  #remove(entry: Entry): void {
    if (this.#entries.get(entry.processId) !== entry) return;
    this.#entries.delete(entry.processId);
    entry.observer.removed();
  }

  #hasClosed(entry: Entry): void {
    const { processId, process, retainMs } = entry;
    if (this.#closing || process === null) return;
    this.closed.add({
      processId,
      exitCode: process.exitCode!,
      retainedBytes: process.retainedBytes + identityBytes(entry),
      retainMs,
      forget: () => {
        this.#remove(entry);
        void process.forget();
      },
    });
  }
}

/** What changes for a process that is moved. */
interface MovedProcess {
  /** Its id in the other manager. */
  readonly processId: string;
  readonly retainMs: number | null;
}

interface Entry extends Pick<ProcessSummary, 'program'> {
  processId: string;
  /** The manager that it is in. */
  manager: ProcessManager;
  /** See {@link StartRequest}. */
  retainMs: number | null;
  readonly observer: ProcessObserver;
  readonly cancel: AbortController;
  readonly startedAtMs: number;
  /** Resolves when the start has succeeded, failed or been cancelled. */
  readonly settled: Promise<void>;
  readonly settle: () => void;
  process: ManagedProcess | null;
  starting: Promise<void> | null;
}

const UNOBSERVED: ProcessObserver = { paused: false, reserved() {}, started() {}, removed() {} };

/**
 * The kernel ends what runs in a sandbox a moment after the sandbox itself. Its protections are removed only then, so that a
 * dying process cannot write where it must not.
 */
function sandboxHooks({ child, launch }: StartedProgram): SandboxHooks {
  const cleanUp = async () => {
    await child.waitForTreeExit();
    if (launch !== null) await releaseSandbox(launch);
  };
  return {
    denialDetector: launch?.denialDetector ?? null,
    cleanUp: launch?.release == null ? null : cleanUp,
  };
}

function settling(): Pick<Entry, 'settled' | 'settle'> {
  let settle = () => {};
  const settled = new Promise<void>((resolve) => {
    settle = resolve;
  });
  return { settled, settle };
}

function sessionEnding(consequence = 'no program can be started'): ProcessError {
  return new ProcessError('shuttingDown', `the session is ending; ${consequence}`);
}

function cancelled(processId: string): ProcessError {
  return new ProcessError('startCancelled', `process ${processId} start was cancelled`);
}
