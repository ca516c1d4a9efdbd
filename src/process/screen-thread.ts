import { Worker } from 'node:worker_threads';
import { onAbort } from '../base/abort.ts';
import { threadProgram } from '../base/embedded-files.ts';
import { FairShares, THREE_QUARTERS } from '../base/fair-shares.ts';
import { ProcessError } from './errors.ts';
import { type Drawing, type DrawnScreen, type DrawScreen, requireDrawable } from './screen/drawn-screen.ts';
import {
  DRAWING_TIMEOUT_MS,
  MAX_WAITING_DRAWINGS,
  SCREEN_THREAD_HEAP_MB,
  SCREEN_THREAD_IDLE_MS,
  SCREEN_THREAD_START_MS,
} from './screen/limits.ts';
import { bufferOf, type DrawingRequest, READY, toMessage } from './screen/screen-messages.ts';

/** Starts the thread that draws screens. */
function startThread(): Worker {
  const { program, ...how } = threadProgram('process/screen/screen-worker.js', import.meta.url);
  return new Worker(program, {
    ...how,
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
 * the others waiting. What a program prints can take minutes to draw, and can make the library throw: neither affects the server. The
 * thread starts with the first screen, ends some time after the last one and does not keep the process alive.
 */
export class ScreenThread {
  readonly #timeoutMs: number;
  /** Drawings that wait or run. */
  readonly #slots: FairShares;
  #worker: Worker | null = null;
  /** Whether the thread has loaded its program. */
  #isReady = false;
  #idle: NodeJS.Timeout | undefined;
  /** Drawings that wait for their turn. The owner whose turn comes next is first. */
  readonly #waiting = new Map<object, (() => void)[]>();
  #isBusy = false;

  constructor(timeoutMs = DRAWING_TIMEOUT_MS, maxDrawings = MAX_WAITING_DRAWINGS) {
    this.#timeoutMs = timeoutMs;
    this.#slots = new FairShares(maxDrawings, 'screens', () => {}, THREE_QUARTERS);
  }

  /**
   * See {@link DrawScreen}. Throws ProcessError for a terminal that is too large and when too many drawings wait, DrawingTimeoutError, and
   * Error when the library fails.
   */
  async draw(owner: object, prepare: () => Drawing, signal?: AbortSignal): Promise<DrawnScreen> {
    if (!this.#slots.reserve(owner)) {
      throw new ProcessError(
        'tooManyDrawings',
        `${this.#slots.heldBy(owner)} screens of this session wait to be drawn, its share at the moment; try again later`,
      );
    }
    try {
      await this.#turn(owner, signal);
      try {
        signal?.throwIfAborted();
        return await this.#draw(prepare());
      } finally {
        this.#endTurn();
      }
    } finally {
      this.#slots.return(owner);
    }
  }

  async #draw({ start, inputs }: Drawing): Promise<DrawnScreen> {
    for (const input of [start.size, ...start.input, ...inputs]) {
      if (!Buffer.isBuffer(input)) requireDrawable(input);
    }
    const screen = await this.#ask({
      start: { ...start, input: toMessage(start.input) },
      inputs: toMessage(inputs),
    });
    return { ...screen, redraw: bufferOf(screen.redraw) };
  }

  /** Resolves when the thread is free for this owner. Rejects when the signal aborts before. */
  #turn(owner: object, signal?: AbortSignal): Promise<void> {
    signal?.throwIfAborted();
    if (!this.#isBusy) {
      this.#isBusy = true;
      return Promise.resolve();
    }
    return new Promise((resolve, reject) => {
      const waiting = this.#waiting.get(owner) ?? [];
      const begin = () => {
        stop();
        resolve();
      };
      const stop =
        signal === undefined
          ? () => {}
          : onAbort(signal, () => {
              stop();
              waiting.splice(waiting.indexOf(begin), 1);
              if (waiting.length === 0) this.#waiting.delete(owner);
              reject(signal.reason);
            });
      waiting.push(begin);
      this.#waiting.set(owner, waiting);
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
      const limit = (ms: number, what: string) =>
        setTimeout(() => {
          this.#forget(worker);
          void worker.terminate();
          reject(new DrawingTimeoutError(`${what} took longer than ${ms} ms`));
        }, ms);
      const limitDrawing = () => limit(this.#timeoutMs, 'drawing a screen');
      // A busy machine may take seconds to load the program of the thread.
      let timer = this.#isReady ? limitDrawing() : limit(SCREEN_THREAD_START_MS, 'the start of the thread');
      worker.on('message', (message: DrawnScreen | typeof READY) => {
        clearTimeout(timer);
        if (message === READY) {
          this.#isReady = true;
          timer = limitDrawing();
          return;
        }
        worker.removeAllListeners('message');
        worker.removeAllListeners('exit');
        resolve(message);
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
    this.#isReady = false;
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
