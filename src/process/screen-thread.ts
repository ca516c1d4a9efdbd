import { Worker } from 'node:worker_threads';
import {
  type DrawnScreen,
  requireDrawable,
  type ScreenStart,
  type TerminalInput,
} from './screen/drawn-screen.ts';
import { DRAWING_TIMEOUT_MS, SCREEN_THREAD_HEAP_MB, SCREEN_THREAD_IDLE_MS } from './screen/limits.ts';
import { bufferOf, type DrawingRequest, toMessage } from './screen/screen-messages.ts';

/**
 * Starts the thread that draws screens. Its program is always a file of the built package. This module is in this folder because the
 * relative path to that file is the same from `src/process`, `dist/process` and `dist/bin`.
 */
function startThread(): Worker {
  return new Worker(new URL('../../dist/process/screen/screen-worker.js', import.meta.url), {
    env: {},
    execArgv: [],
    resourceLimits: { maxOldGenerationSizeMb: SCREEN_THREAD_HEAP_MB },
  });
}

/** A screen took too long to draw. */
export class DrawingTimeoutError extends Error {
  override readonly name = 'DrawingTimeoutError';
}

/**
 * A thread that draws the screens of all terminals, one after the other. What a program prints can take minutes to draw, and can make the
 * library throw: neither affects the server. The thread starts with the first screen, ends some time after the last one and does not keep
 * the process alive.
 */
export class ScreenThread {
  readonly #timeoutMs: number;
  #worker: Worker | null = null;
  #idle: NodeJS.Timeout | undefined;
  /** Settles after the drawings so far. */
  #drawings: Promise<unknown> = Promise.resolve();

  constructor(timeoutMs = DRAWING_TIMEOUT_MS) {
    this.#timeoutMs = timeoutMs;
  }

  /** Throws ProcessError for a terminal that is too large, DrawingTimeoutError, and Error when the library fails. */
  async draw(start: ScreenStart, inputs: readonly TerminalInput[]): Promise<DrawnScreen> {
    for (const input of [start.size, ...start.input, ...inputs]) {
      if (!Buffer.isBuffer(input)) requireDrawable(input);
    }
    const drawn = this.#drawings.then(() =>
      this.#ask({ start: { ...start, input: toMessage(start.input) }, inputs: toMessage(inputs) }),
    );
    this.#drawings = drawn.catch(() => undefined);
    const screen = await drawn;
    return { ...screen, redraw: bufferOf(screen.redraw) };
  }

  #ask(request: DrawingRequest): Promise<DrawnScreen> {
    clearTimeout(this.#idle);
    this.#worker ??= this.#open();
    const worker = this.#worker;
    return new Promise<DrawnScreen>((resolve, reject) => {
      const timer = setTimeout(() => {
        this.#forget(worker);
        void worker.terminate();
        reject(new DrawingTimeoutError(`a screen took longer than ${this.#timeoutMs} ms to draw`));
      }, this.#timeoutMs);
      worker.once('message', (screen: DrawnScreen) => {
        clearTimeout(timer);
        worker.removeAllListeners('exit');
        resolve(screen);
      });
      worker.once('exit', () => {
        clearTimeout(timer);
        this.#forget(worker);
        reject(new Error('the screen cannot be drawn'));
      });
      // Adding a 'message' listener calls ref().
      worker.unref();
      worker.postMessage(request);
    }).finally(() => {
      this.#idle = setTimeout(() => this.#close(), SCREEN_THREAD_IDLE_MS).unref();
    });
  }

  #open(): Worker {
    const worker = startThread();
    // The 'exit' event follows and is handled there.
    worker.on('error', () => {});
    return worker;
  }

  #forget(worker: Worker): void {
    if (this.#worker === worker) this.#worker = null;
  }

  #close(): void {
    const worker = this.#worker;
    this.#worker = null;
    void worker?.terminate();
  }
}
