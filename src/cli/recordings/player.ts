import type { CastEvent } from '../../recording/asciicast.ts';

interface PlayerOptions {
  readonly speed: number;
  /** The longest pause, before it is shortened by the speed; infinite for no limit. */
  readonly idleLimitMs: number;
  /** Shows output. The next follows when the promise is settled. */
  write(text: string): Promise<void>;
}

/** Plays the output of a recording in its time. Keys pause, step and end it. */
export class Player {
  readonly #options: PlayerOptions;
  #isPaused = false;
  #hasQuit = false;
  /** Steps that were asked for while it pauses. */
  #steps = 0;
  #wake: () => void = () => {};

  constructor(options: PlayerOptions) {
    this.#options = options;
  }

  /** Resolves at the end of the recording, or when it was ended. */
  async play(events: AsyncIterable<CastEvent>): Promise<void> {
    let shownUs = 0;
    let lateMs = 0;
    for await (const { atUs, code, text } of events) {
      if (this.#hasQuit) return;
      if (code !== 'o') continue;
      const pauseMs = Math.min((atUs - shownUs) / 1_000, this.#options.idleLimitMs) / this.#options.speed;
      shownUs = atUs;
      lateMs = await this.#wait(pauseMs - lateMs);
      if (this.#hasQuit) return;
      await this.#options.write(text);
    }
  }

  /** A person has pressed keys. */
  keys(keys: string): void {
    // Answers of the terminal to what the program has asked it begin with an escape.
    if (keys.startsWith('\x1b')) return;
    for (const key of keys) {
      if (key === ' ') this.#isPaused = !this.#isPaused;
      if (key === '.' && this.#isPaused) this.#steps++;
      if (key === 'q' || key === '\x03') this.quit();
    }
    this.#wake();
  }

  quit(): void {
    this.#hasQuit = true;
    this.#wake();
  }

  /** Returns how much too late it ends. */
  async #wait(ms: number): Promise<number> {
    let left = ms;
    while (!this.#hasQuit) {
      if (this.#isPaused) {
        if (this.#steps > 0) {
          this.#steps--;
          return 0;
        }
        await this.#sleep(MAX_TIMER_MS);
      } else if (left <= 0) return -left;
      else {
        const from = performance.now();
        await this.#sleep(Math.min(left, MAX_TIMER_MS));
        left -= performance.now() - from;
      }
    }
    return 0;
  }

  /** Ends early when a key is pressed. */
  async #sleep(ms: number): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
      timer = setTimeout(resolve, ms);
    });
    clearTimeout(timer);
  }
}

/** The longest time that timers of Node can measure. */
const MAX_TIMER_MS = 2 ** 31 - 1;
