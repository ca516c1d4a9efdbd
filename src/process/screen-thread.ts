import { Worker } from 'node:worker_threads';
import {
  type DrawnScreen,
  type DrawScreen,
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
 * A thread that draws the screens of all terminals, one after the other. The owners of terminals take turns, so one of them cannot keep
 * the others waiting. What a program prints can take minutes to draw, and can make the
 * library throw: neither affects the server. The thread starts with the first screen, ends some time after the last one and does not keep
 * the process alive.
 */
export class ScreenThread {
  readonly #timeoutMs: number;
  #worker: Worker | null = null;
  #idle: NodeJS.Timeout | undefined;
  /** Drawings that wait for their turn. The owner whose turn comes next is first. */
  readonly #waiting = new Map<object, (() => void)[]>();
  #isBusy = false;

  constructor(timeoutMs = DRAWING_TIMEOUT_MS) {
    this.#timeoutMs = timeoutMs;
  }

  /** Throws ProcessError for a terminal that is too large, DrawingTimeoutError, and Error when the library fails. */
  async draw(owner: object, start: ScreenStart, inputs: readonly TerminalInput[]): Promise<DrawnScreen> {
    for (const input of [start.size, ...start.input, ...inputs]) {
      if (!Buffer.isBuffer(input)) requireDrawable(input);
    }
    await this.#turn(owner);
    try {
      const screen = await this.#ask({
        start: { ...start, input: toMessage(start.input) },
        inputs: toMessage(inputs),
      });
      return { ...screen, redraw: bufferOf(screen.redraw) };
    } finally {
      this.#endTurn();
    }
  }

  /** Resolves when the thread is free for this owner. */
  #turn(owner: object): Promise<void> {
    if (!this.#isBusy) {
      this.#isBusy = true;
      return Promise.resolve();
    }
    return new Promise((begin) => {
      const waiting = this.#waiting.get(owner);
      if (waiting === undefined) this.#waiting.set(owner, [begin]);
      else waiting.push(begin);
    });
  }

  #endTurn(): void {
    const [next] = this.#waiting;
    if (next === undefined) {
      this.#isBusy = false;
      return;
    }
    const [owner, waiting] = next;
    this.#waiting.delete(owner);
    const begin = waiting.shift()!;
    if (waiting.length > 0) this.#waiting.set(owner, waiting);
    begin();
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

const SERVER_THREAD = new ScreenThread();

/** Draws screens for an owner of terminals, such as a session. */
export function drawScreenFor(owner: object): DrawScreen {
  return (...drawing) => SERVER_THREAD.draw(owner, ...drawing);
}
