import { Worker } from 'node:worker_threads';
import { FileError } from './errors.ts';
import {
  FILE_THREAD_HEAP_MB,
  FILE_THREAD_IDLE_MS,
  MAX_BROKEN_FILE_THREADS,
  MAX_FILE_THREADS,
  WRITE_WAIT_MS,
  WRITE_WAIT_PAUSE_MS,
} from './limits.ts';
import { SharedWriteSlot, type WriteJob } from './thread/shared-write-slot.ts';
import { ThreadAffinity } from './thread/thread-affinity.ts';
import type { ThreadAnswers, ThreadJob, ThreadMessage } from './thread/thread-messages.ts';

/**
 * Starts a thread that works on files. Its program is a file of the built package, however this module is run, and this module
 * stands here because the way to that file is the same from `src/files`, `dist/files` and `dist/bin`.
 */
function startFileThread(desk: SharedArrayBuffer): Worker {
  return new Worker(new URL('../../dist/files/thread/worker.js', import.meta.url), {
    workerData: desk,
    env: {},
    execArgv: [],
    // What it opens may be handed over, and outlives it then.
    trackUnmanagedFds: false,
    resourceLimits: { maxOldGenerationSizeMb: FILE_THREAD_HEAP_MB },
  });
}

/**
 * Threads that wait for the system by themselves, for work that takes many calls: each call that the event loop hands to a thread and
 * takes back costs more than the call. They are there when work of that kind keeps coming, and gone some seconds after the last of
 * it; they keep no process alive. Whoever finds none free does the work the ordinary way, also when all of them hang on a dead mount.
 */
export class FileThreads {
  readonly #start: (desk: SharedArrayBuffer) => Worker;
  readonly #idleMs: number;
  readonly #threads = new Set<FileThread>();
  #broken = 0;
  /** Whether a write was waited for in this turn of the event loop. */
  #hasWaited = false;
  #waitsAgainMs = 0;

  constructor(start: (desk: SharedArrayBuffer) => Worker = startFileThread, idleMs = FILE_THREAD_IDLE_MS) {
    this.#start = start;
    this.#idleMs = idleMs;
  }

  /** How many there are, also those that are starting or hang. */
  get count(): number {
    return this.#threads.size;
  }

  /** How many would take a job now. */
  get free(): number {
    return [...this.#threads].filter((thread) => thread.free).length;
  }

  /** Makes sure that a thread will be free soon, unless there are enough. */
  prepare(): void {
    if (this.#threads.size === MAX_FILE_THREADS || this.#broken >= MAX_BROKEN_FILE_THREADS) return;
    if ([...this.#threads].some((thread) => !thread.busy)) return;
    try {
      const thread: FileThread = new FileThread(this.#start, this.#idleMs, (broken) => {
        this.#threads.delete(thread);
        if (broken) this.#broken++;
      });
      this.#threads.add(thread);
    } catch {
      this.#broken++;
    }
  }

  /**
   * Has a job done, or resolves with null: no thread was free, or the one that was has broken. Throws what the job fails with; once
   * the signal aborts, its reason, and the thread is ended.
   */
  async run<Job extends ThreadJob>(
    job: Job,
    signal?: AbortSignal,
  ): Promise<ThreadAnswers[Job['kind']] | null> {
    signal?.throwIfAborted();
    const thread = this.#take();
    return thread && ((await thread.run(job, signal)) as ThreadAnswers[Job['kind']] | null);
  }

  /** Has a small file written; the outcome is there at once if that was done in a moment. Otherwise like {@link run}. */
  write(job: WriteJob): ThreadAnswers['write'] | Promise<ThreadAnswers['write'] | null> | null {
    const mayWait = this.#mayWait();
    const thread = SharedWriteSlot.fits(job) ? this.#take() : null;
    if (thread === null) return null;
    const outcome = thread.write(job, mayWait ? WRITE_WAIT_MS : 0) as ReturnType<FileThreads['write']>;
    if (mayWait) this.#noteWait(outcome === 'written');
    return outcome;
  }

  #take(): FileThread | null {
    for (const thread of this.#threads) {
      if (thread.free) return thread;
    }
    if (this.#threads.size > 0) this.prepare();
    return null;
  }

  #mayWait(): boolean {
    if (this.#hasWaited || performance.now() < this.#waitsAgainMs) return false;
    return ![...this.#threads].some((thread) => thread.busy);
  }

  #noteWait(wasWorthIt: boolean): void {
    this.#hasWaited = true;
    setImmediate(() => {
      this.#hasWaited = false;
    });
    if (!wasWorthIt) this.#waitsAgainMs = performance.now() + WRITE_WAIT_PAUSE_MS;
  }
}

type Answered = ThreadAnswers[keyof ThreadAnswers];

class FileThread {
  readonly #desk = new SharedWriteSlot();
  #place = new ThreadAffinity(null);
  readonly #worker: Worker;
  /** Ends a thread that has had nothing to do for a while. */
  readonly #idle: NodeJS.Timeout;
  #ready = false;
  #ended = false;
  /** Takes what the thread says about its job; null when it has ended. */
  #settle: ((message: ThreadMessage | null) => void) | null = null;

  /** `gone` hears whether it ended by itself. */
  constructor(start: (desk: SharedArrayBuffer) => Worker, idleMs: number, gone: (broken: boolean) => void) {
    const worker = start(this.#desk.memory);
    this.#worker = worker;
    this.#idle = setTimeout(() => this.free && this.#end(), idleMs).unref();
    worker.on('message', (message: ThreadMessage) => this.#hear(message));
    // What went wrong in it shows in that it ends.
    worker.on('error', () => {});
    worker.once('exit', () => {
      const broken = !this.#ended;
      this.#end();
      gone(broken);
      this.#settle?.(null);
    });
    // Last, because listening to it takes this back.
    worker.unref();
  }

  /** Whether it has a job, or will never take one again. */
  get busy(): boolean {
    return this.#settle !== null || this.#ended;
  }

  get free(): boolean {
    return this.#ready && !this.busy;
  }

  run(job: ThreadJob, signal: AbortSignal | undefined): Promise<Answered | null> {
    this.#place.free();
    this.#worker.postMessage(job);
    this.#desk.ring();
    return this.#answer(signal);
  }

  write(job: WriteJob, waitMs: number): 'written' | Promise<Answered | null> {
    const letItRun = waitMs > 0 ? this.#place.pinToCurrentCpu() : null;
    if (this.#desk.write(job, waitMs, letItRun)) {
      this.#idle.refresh();
      return 'written';
    }
    this.#place.free();
    return this.#answer();
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

  #hear(message: ThreadMessage): void {
    if (message.kind === 'ready') {
      this.#place = new ThreadAffinity(message.systemThread);
      this.#ready = true;
    } else {
      this.#settle?.(message);
    }
    this.#idle.refresh();
  }

  #end(): void {
    if (this.#ended) return;
    this.#ended = true;
    clearTimeout(this.#idle);
    void this.#worker.terminate();
  }
}
