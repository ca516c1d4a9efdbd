import { CLOSE_AFTER_KILL_ROUNDS, MAX_TIMER_MS, OUTPUT_AFTER_KILL_MS } from './limits.ts';
import { SIGTERM } from './signals.ts';
import type { Child } from './spawn/spawner.ts';

/** How to end a process. */
export type TerminateMode =
  | { readonly type: 'force' }
  | { readonly type: 'graceful'; readonly timeoutMs: number };

/** The process that is to be ended. */
interface EndingProcess {
  isRunning(): boolean;
  /** Closes stdin. */
  abandonInput(): void;
  /** The output no longer waits for a client that has not used what it got. */
  unhold(): void;
  /** Whether the process closes within this time, not counting the time in which a slow client pauses the output. */
  closes(readingMs: number): Promise<boolean>;
}

/** Ends a process and everything that it started: immediately, or after a time in which the program can end by itself. */
export class Termination {
  readonly #child: Child;
  readonly #process: EndingProcess;
  #killTimer: NodeJS.Timeout | null = null;
  #killing: Promise<void> | null = null;

  constructor(child: Child, process: EndingProcess) {
    this.#child = child;
    this.#process = process;
  }

  begin(mode: TerminateMode): void {
    if (mode.type === 'force') {
      void this.kill();
      return;
    }
    this.#child.signalGroup(SIGTERM);
    this.#process.unhold();
    this.#killTimer ??= setTimeout(() => void this.kill(), Math.min(mode.timeoutMs, MAX_TIMER_MS));
  }

  /**
   * Kills the whole tree immediately. Resolves when none of it is left and the process is closed, or after a deadline: a program
   * stuck inside the kernel must not keep the server from shutting down.
   */
  kill(): Promise<void> {
    if (this.#killTimer !== null) clearTimeout(this.#killTimer);
    this.#killTimer = null;
    this.#killing ??= this.#killNow().finally(() => {
      this.#killing = null;
    });
    return this.#killing;
  }

  /** Ends a graceful termination early, because no client can refer to the process any more. */
  async forget(): Promise<void> {
    if (this.#killTimer !== null) await this.kill();
  }

  async #killNow(): Promise<void> {
    const running = this.#process.isRunning();
    // Stdin is closed after the kill. Otherwise the program could see the end of its input and exit with its own code.
    const killed = this.#child.killTree();
    if (running) this.#process.abandonInput();
    await killed;
    // Everything that could write is dead.
    this.#process.unhold();
    for (let rounds = 0; rounds < CLOSE_AFTER_KILL_ROUNDS; rounds++) {
      if (await this.#process.closes(OUTPUT_AFTER_KILL_MS)) return;
      // A process from outside the tree may still hold a stream and is not waited for.
      for (const source of this.#child.outputs) source.destroy();
    }
  }
}
