import { Worker } from 'node:worker_threads';
import { threadProgram } from '../base/embedded-files.ts';
import { FileError } from './errors.ts';
import {
  FILE_THREAD_HEAP_MB,
  FILE_THREAD_IDLE_MS,
  MAX_CRASHED_FILE_THREADS,
  MAX_FILE_THREADS,
  WRITE_WAIT_MS,
  WRITE_WAIT_PAUSE_MS,
} from './limits.ts';
import { SharedWriteSlot, type WriteJob } from './thread/shared-write-slot.ts';
import type { ThreadAnswers, ThreadJob, ThreadMessage } from './thread/thread-messages.ts';

/** Starts a thread that works on files. */
function startFileThread(writeSlot: SharedArrayBuffer): Worker {
  const { program, ...how } = threadProgram('files/thread/worker.js', import.meta.url);
  return new Worker(program, {
    ...how,
    workerData: writeSlot,
    env: {},
    execArgv: [],
    // The thread may hand over an open descriptor, which then outlives the thread.
    trackUnmanagedFds: false,
    resourceLimits: { maxOldGenerationSizeMb: FILE_THREAD_HEAP_MB },
  });
}

/**
 * Threads that make blocking system calls, for jobs with many calls. On the event loop each call costs a round trip to libuv's
 * thread pool, which takes longer than the call itself. Threads start when such jobs keep coming and end some seconds after the
 * last one. They do not keep the process alive. If no thread is free, for example because all hang on a dead mount, callers use the
 * ordinary asynchronous calls.
 */
export class FileThreads {
  readonly #start: (writeSlot: SharedArrayBuffer) => Worker;
  readonly #idleMs: number;
  readonly #threads = new Set<FileThread>();
  #crashed = 0;
  /** Whether the event loop has already blocked for a write in this turn. */
  #hasBlocked = false;
  #blockAgainAtMs = 0;

  constructor(
    start: (writeSlot: SharedArrayBuffer) => Worker = startFileThread,
    idleMs = FILE_THREAD_IDLE_MS,
  ) {
    this.#start = start;
    this.#idleMs = idleMs;
  }

  /** Number of threads, including those that are starting or hang. */
  get count(): number {
    return this.#threads.size;
  }

  /** Number of threads that would accept a job now. */
  get free(): number {
    return [...this.#threads].filter((thread) => thread.free).length;
  }

  /** Starts a thread, unless one is idle or the limit is reached. */
  prepare(): void {
    if (this.#threads.size === MAX_FILE_THREADS || this.#crashed >= MAX_CRASHED_FILE_THREADS) return;
    if ([...this.#threads].some((thread) => !thread.busy)) return;
    try {
      const thread: FileThread = new FileThread(this.#start, this.#idleMs, (hasCrashed) => {
        this.#threads.delete(thread);
        if (hasCrashed) this.#crashed++;
      });
      this.#threads.add(thread);
    } catch {
      this.#crashed++;
    }
  }

  /**
   * Runs a job. Resolves with null when no thread was free or the thread crashed. Rejects with the error of the job. When the
   * signal aborts, it rejects with the signal's reason and terminates the thread.
   */
  async run<Job extends ThreadJob>(
    job: Job,
    signal?: AbortSignal,
  ): Promise<ThreadAnswers[Job['kind']] | null> {
    signal?.throwIfAborted();
    const thread = this.#take();
    return thread && ((await thread.run(job, signal)) as ThreadAnswers[Job['kind']] | null);
  }

  /**
   * Writes a small file. Returns the outcome synchronously if the write finishes within the wait limit. Otherwise like {@link run}.
   */
  write(job: WriteJob): ThreadAnswers['write'] | Promise<ThreadAnswers['write'] | null> | null {
    const mayBlock = this.#mayBlock();
    const thread = SharedWriteSlot.fits(job) ? this.#take() : null;
    if (thread === null) return null;
    const outcome = thread.write(job, mayBlock ? WRITE_WAIT_MS : 0) as ReturnType<FileThreads['write']>;
    if (mayBlock) this.#noteBlocking(outcome === 'written');
    return outcome;
  }

  #take(): FileThread | null {
    for (const thread of this.#threads) {
      if (thread.free) return thread;
    }
    if (this.#threads.size > 0) this.prepare();
    return null;
  }

  #mayBlock(): boolean {
    if (this.#hasBlocked || performance.now() < this.#blockAgainAtMs) return false;
    return ![...this.#threads].some((thread) => thread.busy);
  }

  #noteBlocking(finishedInTime: boolean): void {
    this.#hasBlocked = true;
    setImmediate(() => {
      this.#hasBlocked = false;
    });
    if (!finishedInTime) this.#blockAgainAtMs = performance.now() + WRITE_WAIT_PAUSE_MS;
  }
}

type Answered = ThreadAnswers[keyof ThreadAnswers];

class FileThread {
  readonly #writeSlot = new SharedWriteSlot();
  readonly #worker: Worker;
  /** Terminates the thread after an idle period. */
  readonly #idle: NodeJS.Timeout;
  #ready = false;
  #ended = false;
  /** Receives the outcome of the current job; null when the thread has exited. */
  #settle: ((message: ThreadMessage | null) => void) | null = null;

  /** `onExit` receives true if the thread ended by itself. */
  constructor(
    start: (writeSlot: SharedArrayBuffer) => Worker,
    idleMs: number,
    onExit: (hasCrashed: boolean) => void,
  ) {
    const worker = start(this.#writeSlot.memory);
    this.#worker = worker;
    this.#idle = setTimeout(() => this.free && this.#end(), idleMs).unref();
    worker.on('message', (message: ThreadMessage) => this.#receive(message));
    // The 'exit' event follows and is handled there.
    worker.on('error', () => {});
    worker.once('exit', () => {
      const hasCrashed = !this.#ended;
      this.#end();
      onExit(hasCrashed);
      this.#settle?.(null);
    });
    // After the listeners, because adding a 'message' listener calls ref().
    worker.unref();
  }

  /** Whether it has a job or is terminated. */
  get busy(): boolean {
    return this.#settle !== null || this.#ended;
  }

  get free(): boolean {
    return this.#ready && !this.busy;
  }

  run(job: ThreadJob, signal: AbortSignal | undefined): Promise<Answered | null> {
    this.#worker.postMessage(job);
    this.#writeSlot.notifyMessage();
    return this.#answer(signal);
  }

  write(job: WriteJob, waitMs: number): 'written' | Promise<Answered | null> {
    if (!this.#writeSlot.write(job, waitMs)) return this.#answer();
    this.#idle.refresh();
    return 'written';
  }

  #answer(signal?: AbortSignal): Promise<Answered | null> {
    return new Promise((resolve, reject) => {
      const abandon = () => {
        this.#end();
        reject(signal?.reason);
      };
      signal?.addEventListener('abort', abandon, { once: true });
      this.#settle = (message) => {
        this.#settle = null;
        signal?.removeEventListener('abort', abandon);
        if (message?.kind === 'failed')
          reject(new FileError(message.errorKind, message.message, message.errno));
        else resolve(message?.kind === 'done' ? message.answer : null);
      };
    });
  }

  #receive(message: ThreadMessage): void {
    if (message.kind === 'ready') this.#ready = true;
    else this.#settle?.(message);
    this.#idle.refresh();
  }

  #end(): void {
    if (this.#ended) return;
    this.#ended = true;
    clearTimeout(this.#idle);
    void this.#worker.terminate();
  }
}
