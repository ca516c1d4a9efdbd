import { ChangeSignal } from './change-signal.ts';
import { ProcessError } from './errors.ts';
import { CLOSED_PROCESS_BYTES, DENIAL_OUTPUT_WAIT_MS, OUTPUT_READ_BYTES } from './limits.ts';
import { OutputLog, type RetainedChunk } from './output-log.ts';
import { type ReadPage, type ReadRequest, readPage } from './read-page.ts';
import { type LimitReason, NO_RUN_LIMITS, type RunLimits } from './resources/resource-limits.ts';
import { RunWatch } from './resources/run-watch.ts';
import type { RetentionLimits, StreamSnapshot } from './retained-stream.ts';
import type { DrawScreen } from './screen/drawn-screen.ts';
import { type RetainedOutput, type Screen, ScreenTracker } from './screen/screen-tracker.ts';
import { END_SIGNALS } from './signals.ts';
import type { Child, ExitStatus, StreamName } from './spawn/spawner.ts';
import { StdinQueue, type WriteStatus } from './stdin-queue.ts';
import { DEFAULT_TERMINAL_SIZE, type TerminalSize } from './terminal-size.ts';
import { type TerminateMode, Termination } from './termination.ts';
import type { ProcessTree } from './tree/kill-tree.ts';

/** Receives a process's events in sequence order. The bytes are valid only during the call. */
export interface ProcessListener {
  output(seq: number, stream: StreamName, bytes: Buffer): void;
  /** `reason` is the limit that ended the program, or null; `denied` is the result of the {@link DenialDetector}. */
  exited(seq: number, exitCode: number, reason: LimitReason | null, denied: boolean): void;
  /** `reason` can also be a limit that ended only processes which the program left behind. */
  closed(seq: number, reason: LimitReason | null): void;
}

/** Receives what clients do to a process. */
interface ProcessTap {
  resized(rows: number, cols: number): void;
  /** Bytes that were queued for stdin, valid during the call. */
  written(bytes: Uint8Array): void;
}

/** Decides from a program's output and exit code whether its sandbox made it fail. */
export interface DenialDetector {
  /** Receives all output in order. The bytes are valid only during the call. */
  output(stream: StreamName, bytes: Buffer): void;
  denied(exitCode: number): boolean;
}

/** What a sandbox adds to the end of a process. */
export interface SandboxHooks {
  readonly denialDetector: DenialDetector | null;
  /** Cleans up after the program. The exit event waits for this. Never rejects. */
  readonly cleanUp: (() => Promise<void>) | null;
}

const UNSANDBOXED: SandboxHooks = { denialDetector: null, cleanUp: null };

/**
 * A started program: running, then exited, then closed. It is exited when its own process has been reaped and what was readable then
 * has been read, and closed when also every output stream has ended. Both happen once and in that order.
 */
export class ManagedProcess {
  readonly #child: Child;
  readonly #listener: ProcessListener;
  readonly #log: OutputLog;
  readonly #tailBytes: number;
  readonly #maxChunkBytes: number;
  readonly #stdin: StdinQueue | null;
  /** Null for a process on pipes. */
  readonly #screen: ScreenTracker | null;
  readonly #changes = new ChangeSignal();
  readonly #watch: RunWatch;
  readonly #denialDetector: DenialDetector | null;
  readonly #cleanUp: SandboxHooks['cleanUp'];
  /** How the program ended, while the denial detector still waits for the rest of the output. */
  #unreported: { readonly end: ProgramEnd; readonly timer: NodeJS.Timeout } | null = null;
  #openStreams: number;
  #exitCode: number | null = null;
  #exitSeq = Number.POSITIVE_INFINITY;
  #outOfMemory = false;
  #closed = false;
  #reading = false;
  #paused = false;
  #held = false;
  #outputAtMs = 0;
  /** Whether the program was asked to end, or is dead. */
  #ending = false;
  /** Whether a client has sent a signal that usually ends a program. */
  #gotEndSignal = false;
  readonly #termination: Termination;
  #tap: ProcessTap | null = null;

  constructor(
    child: Child,
    retention: RetentionLimits,
    listener: ProcessListener,
    limits: RunLimits = NO_RUN_LIMITS,
    { denialDetector, cleanUp }: SandboxHooks = UNSANDBOXED,
    size: TerminalSize | null = null,
    drawScreen?: DrawScreen,
  ) {
    this.#child = child;
    this.#denialDetector = denialDetector;
    this.#cleanUp = cleanUp;
    this.#listener = listener;
    const isTerminal = child.outputs.some((source) => source.name === 'pty');
    this.#log = new OutputLog(retention, isTerminal ? (bytes) => this.#screen?.evict(bytes) : null);
    this.#screen = isTerminal
      ? new ScreenTracker(size ?? DEFAULT_TERMINAL_SIZE, terminalOutput(this.#log), drawScreen)
      : null;
    this.#tailBytes = retention.tailBytes;
    this.#maxChunkBytes = retention.maxChunkBytes ?? OUTPUT_READ_BYTES;
    this.#stdin = child.stdin === null ? null : new StdinQueue(child.stdin, isTerminal);
    this.#openStreams = child.outputs.length;
    // In a later microtask, so that the output within the limit is delivered first.
    this.#watch = new RunWatch(limits, () => queueMicrotask(() => void this.kill()));
    this.#termination = new Termination(child, {
      isRunning: () => this.#exitCode === null,
      abandonInput: () => this.#stdin?.abandon(),
      unhold: () => this.#unhold(),
      closes: (readingMs) => this.#closesWhileRead(readingMs),
    });
  }

  /** Starts reading, unless output is paused from the beginning. */
  begin(paused: boolean): void {
    for (const source of this.#child.outputs) {
      source.listen(
        (bytes) => this.#output(source.name, bytes),
        () => this.#streamEnded(),
      );
    }
    this.#watch.begin(false);
    this.setPaused(paused);
    this.#child.onExit((status) => {
      // A limit that is exceeded after this point did not end the program.
      const end: ProgramEnd = { status, reason: this.#watch.reason };
      if (this.#cleanUp === null) this.#drainOutput(end);
      else void this.#cleanUp().then(() => this.#drainOutput(end));
    });
  }

  /** Null while the program runs; 128 + n after signal n. */
  get exitCode(): number | null {
    return this.#exitCode;
  }

  /** Infinite while the program runs. */
  get exitSeq(): number {
    return this.#exitSeq;
  }

  get closed(): boolean {
    return this.#closed;
  }

  /** The limit that ended the program or the processes it left behind; null when none did. */
  get reason(): LimitReason | null {
    return this.#outOfMemory ? 'oom' : this.#watch.reason;
  }

  /** Whether the sandbox made the program fail; false while it runs. */
  get denied(): boolean {
    return this.#exitCode !== null && (this.#denialDetector?.denied(this.#exitCode) ?? false);
  }

  get nextSeq(): number {
    return this.#log.nextSeq;
  }

  /** The program and its descendants. */
  get tree(): ProcessTree {
    return this.#child.tree;
  }

  /** Bytes of all output streams. */
  get outputBytes(): number {
    return this.#log.totalBytes;
  }

  /** When the last output was read, in Unix time; 0 before the first. */
  get outputAtMs(): number {
    return this.#outputAtMs;
  }

  /** Memory of a closed process: a fixed amount, its output, its screen and its write ids. */
  get retainedBytes(): number {
    const screenBytes = this.#screen?.retainedBytes ?? 0;
    return CLOSED_PROCESS_BYTES + this.#log.retainedBytes + screenBytes + (this.#stdin?.retainedBytes ?? 0);
  }

  /** Stops or resumes reading. While reading is stopped the program blocks once its pipe is full. */
  setPaused(paused: boolean): void {
    this.#paused = paused;
    this.#updateReading();
  }

  /**
   * Stops or resumes reading for a client that has not used what it got. Without effect once the program was asked to end or is killed:
   * it may write its last output, and its end does not wait for the client.
   */
  setHeld(held: boolean): void {
    this.#held = held;
    this.#updateReading();
  }

  /** Returns immediately when there is a new event or the process is closed. Otherwise waits until the timeout or until `signal` aborts. */
  async read(request: ReadRequest, signal: AbortSignal, onWait: () => void): Promise<ReadPage> {
    if (request.waitMs > 0 && !this.#hasNewEvents(request.afterSeq)) {
      onWait();
      await this.#changes.wait(() => this.#hasNewEvents(request.afterSeq), request.waitMs, signal);
    }
    return readPage(this.#log, this, request);
  }

  /** The first retained chunks after a sequence number, about `maxBytes` of them. Valid until the next event. */
  retainedAfter(afterSeq: number, maxBytes: number): readonly RetainedChunk[] {
    return this.#log.read(afterSeq, maxBytes).chunks;
  }

  /** Waits until the process has exited or closed. False when the timeout or `signal` comes first. */
  async wait(until: 'exited' | 'closed', timeoutMs: number | null, signal?: AbortSignal): Promise<boolean> {
    const reached = () => (until === 'exited' ? this.#exitCode !== null : this.#closed);
    await this.#changes.wait(reached, timeoutMs ?? Number.POSITIVE_INFINITY, signal);
    return reached();
  }

  snapshot(stream: StreamName, maxBytes: number): StreamSnapshot {
    return this.#log.snapshot(stream, maxBytes);
  }

  /** Reports resizes and input from now on. */
  tap(tap: ProcessTap | null): void {
    this.#tap = tap;
    if (this.#stdin !== null && tap !== null) this.#stdin.onQueued = (bytes) => tap.written(bytes);
  }

  /** See {@link StdinQueue.write}. */
  write(
    bytes: Uint8Array,
    writeId: string | null,
    onWithheld: () => void,
  ): Promise<WriteStatus> | WriteStatus {
    if (this.#stdin === null) return 'stdinClosed';
    for (const source of this.#child.outputs) source.expectReply();
    return this.#stdin.write(bytes, writeId, onWithheld);
  }

  /** Closes stdin after the queued writes; false when it is already closed. */
  closeStdin(): boolean {
    return this.#exitCode === null && this.#stdin !== null && this.#stdin.end();
  }

  /**
   * Signals the process group. Does nothing once the program has exited. When the program ends after a signal that usually ends one, its
   * exit does not wait for a client that has not used what it got.
   */
  signal(signal: number): void {
    if (this.#exitCode !== null) return;
    if (END_SIGNALS.has(signal)) this.#gotEndSignal = true;
    this.#child.signalGroup(signal);
  }

  /** Signals the process group so that the program ends. What it still writes does not wait for the client. */
  requestEnd(signal: number): void {
    this.signal(signal);
    this.#unhold();
  }

  /** The size of the terminal; null for a process on pipes. */
  get size(): TerminalSize | null {
    return this.#screen?.size ?? null;
  }

  resize(rows: number, cols: number): void {
    if (this.#screen === null) {
      throw new ProcessError(
        'notATerminal',
        'the process does not run on a terminal; start it with tty to resize it',
      );
    }
    if (this.#closed) return;
    this.#child.resize(rows, cols);
    this.#screen.resize({ rows, cols });
    this.#tap?.resized(rows, cols);
  }

  /** Draws the screen of the terminal. The events after its `seq` continue it. */
  async screen(signal?: AbortSignal): Promise<Screen> {
    if (this.#screen === null) {
      throw new ProcessError(
        'notATerminal',
        'the process does not run on a terminal and has no screen; start it with tty, or read its output',
      );
    }
    return this.#screen.draw(signal);
  }

  /**
   * Ends the process and everything it started. Returns whether the program itself was still running. Does nothing once the
   * process is closed: a descendant without any of its streams was left running on purpose, and clients terminate every process
   * they no longer need.
   */
  terminate(mode: TerminateMode): boolean {
    if (this.#closed) return false;
    const running = this.#exitCode === null;
    this.#termination.begin(mode);
    return running;
  }

  /** See {@link Termination.kill}. */
  kill(): Promise<void> {
    return this.#termination.kill();
  }

  /** See {@link Termination.forget}. */
  forget(): Promise<void> {
    return this.#termination.forget();
  }

  #unhold(): void {
    this.#ending = true;
    this.#updateReading();
  }

  #updateReading(): void {
    const reading = !this.#paused && (!this.#held || this.#ending);
    if (reading === this.#reading) return;
    this.#reading = reading;
    this.#watch.setReading(reading);
    for (const source of this.#child.outputs) {
      // A source that is resumed may deliver output, which can stop the reading again.
      if (this.#reading) source.resume();
      else source.pause();
    }
    this.#changes.notify();
  }

  /** Like {@link wait} for the end, but time in which nothing is read does not count. */
  async #closesWhileRead(readingMs: number): Promise<boolean> {
    for (let left = readingMs; left > 0 && !this.#closed; ) {
      const reading = this.#reading;
      const from = performance.now();
      await this.#changes.wait(
        () => this.#closed || this.#reading !== reading,
        reading ? left : Number.POSITIVE_INFINITY,
      );
      if (reading) left -= performance.now() - from;
    }
    return this.#closed;
  }

  #output(stream: StreamName, read: Buffer): void {
    const bytes = read.subarray(0, this.#watch.output(read.length));
    this.#denialDetector?.output(stream, bytes);
    this.#outputAtMs = Date.now();
    for (let from = 0; from < bytes.length; ) {
      const chunk = bytes.subarray(from, from + this.#nextChunkBytes(bytes.length - from));
      from += chunk.length;
      this.#listener.output(this.#log.append(stream, chunk, this.#outputAtMs), stream, chunk);
    }
    this.#changes.notify();
  }

  /** The last chunk is not larger than what is retained, so that readers can get all of it. */
  #nextChunkBytes(bytesLeft: number): number {
    if (bytesLeft > this.#maxChunkBytes) return this.#maxChunkBytes;
    return bytesLeft > this.#tailBytes ? bytesLeft - this.#tailBytes : bytesLeft;
  }

  /** What the program wrote before it exited comes before the exit event. What processes that it left behind write may follow. */
  #drainOutput(end: ProgramEnd): void {
    let undrained = this.#child.outputs.length;
    const done = () => {
      if (--undrained === 0) this.#exited(end);
    };
    // A connection that is full must not get more.
    const whilePaused = this.#gotEndSignal && !this.#paused;
    for (const source of this.#child.outputs) source.drainReadable(done, whilePaused);
  }

  #streamEnded(): void {
    this.#openStreams--;
    if (this.#openStreams === 0 && this.#unreported !== null) this.#reportExit(this.#unreported.end);
    this.#closeWhenDone();
  }

  /** With a denial detector a failure is reported when the output is complete, or after a short wait when something keeps it open. */
  #exited(end: ProgramEnd): void {
    if (this.#denialDetector === null || end.status.code === 0 || this.#openStreams === 0) {
      this.#reportExit(end);
      return;
    }
    const report = () => {
      if (this.#unreported?.end === end) this.#reportExit(end);
    };
    // After a stall of the event loop, timers fire before waiting output is read. setImmediate runs after it.
    const timer = setTimeout(() => setImmediate(report), DENIAL_OUTPUT_WAIT_MS);
    this.#unreported = { end, timer };
  }

  #reportExit({ status, reason }: ProgramEnd): void {
    clearTimeout(this.#unreported?.timer);
    this.#unreported = null;
    this.#exitCode = status.code ?? 128 + (status.signal ?? 0);
    this.#outOfMemory = status.outOfMemory ?? false;
    this.#exitSeq = this.#log.mark();
    this.#listener.exited(this.#exitSeq, this.#exitCode, this.#outOfMemory ? 'oom' : reason, this.denied);
    this.#changes.notify();
    this.#closeWhenDone();
  }

  #closeWhenDone(): void {
    if (this.#closed || this.#exitCode === null || this.#openStreams > 0) return;
    this.#closed = true;
    this.#watch.stop();
    this.#stdin?.close();
    this.#log.shrink();
    this.#child.release();
    this.#listener.closed(this.#log.mark(), this.reason);
    this.#changes.notify();
  }

  #hasNewEvents(afterSeq: number): boolean {
    if (this.#closed || this.#log.hasAfter(afterSeq)) return true;
    return this.#exitCode !== null && afterSeq < this.#log.nextSeq - 1;
  }
}

/** A terminal has one stream. */
function terminalOutput(log: OutputLog): RetainedOutput {
  return {
    get lastSeq() {
      return log.nextSeq - 1;
    },
    get totalBytes() {
      return log.totalBytes;
    },
    bytesFrom: (offset) => log.bytesFrom('pty', offset),
  };
}

/** How a program ended, and the limit that ended it. */
interface ProgramEnd {
  readonly status: ExitStatus;
  readonly reason: LimitReason | null;
}
