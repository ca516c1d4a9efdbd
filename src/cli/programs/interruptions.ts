import { constants } from 'node:os';
import type { Host } from '../commands.ts';
import { RunError } from '../failures.ts';

/** What {@link Host.onSignal} reports: the name of a signal, or a sentence for a terminal that was closed. */
export type Interruption = string;

/** The signal that an interruption stands for. A terminal that is closed sends SIGHUP. */
export function signalOf(interruption: Interruption): 'SIGINT' | 'SIGTERM' | 'SIGHUP' {
  return interruption === 'SIGINT' || interruption === 'SIGTERM' ? interruption : 'SIGHUP';
}

/** The exit code of a command that a signal ended. */
export function signalExitCode(signal: keyof typeof constants.signals): number {
  return 128 + constants.signals[signal];
}

/** The signals that this command gets. Before the program runs they end the command, then they are the program's. */
export class Interruptions {
  readonly #beforeStart = new AbortController();
  #handle: (interruption: Interruption) => void;

  constructor(host: Pick<Host, 'onSignal'>) {
    this.#handle = (interruption) => {
      const signal = signalOf(interruption);
      const details = { kind: 'interrupted', exitCode: signalExitCode(signal) };
      this.#beforeStart.abort(new RunError(`interrupted by ${signal} before the program started`, details));
    };
    host.onSignal((interruption) => this.#handle(interruption));
  }

  /** Aborts when a signal arrives before the program has started. */
  get signal(): AbortSignal {
    return this.#beforeStart.signal;
  }

  /** Passes later signals to `handle`. */
  handleWith(handle: (interruption: Interruption) => void): void {
    this.#handle = handle;
  }

  /** Replaces the error of a call that {@link signal} aborted by the signal itself. */
  explain(error: unknown): unknown {
    return this.signal.aborted ? this.signal.reason : error;
  }
}
