import { constants } from 'node:os';
import type { Host } from '../commands.ts';
import { RunError } from '../failures.ts';

/** What {@link Host.onSignal} reports: the name of a signal, or a sentence for a terminal that was closed. */
export type Interruption = string;

/** The signal that an interruption stands for. A terminal that is closed sends SIGHUP. */
export function signalOf(interruption: Interruption): InterruptionSignal {
  return SIGNALS.find((signal) => signal === interruption) ?? 'SIGHUP';
}

/** The signals of a program that its command gets. */
export type InterruptionSignal = (typeof SIGNALS)[number];

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const;

/** The exit code of a command that a signal ended. */
export function signalExitCode(signal: keyof typeof constants.signals): number {
  return 128 + constants.signals[signal];
}

/** The signals that this command gets. Before the program is followed they end the command, then they are the program's. */
export class Interruptions {
  #ending = new AbortController();
  #handle: (interruption: Interruption) => void = () => {};

  /** `when` is the end of the message about a signal that ends the command. */
  constructor(host: Pick<Host, 'onSignal'>, when = 'before the start of the program was confirmed') {
    this.endCommand(when);
    host.onSignal((interruption) => this.#handle(interruption), ['SIGQUIT']);
  }

  /** Aborts when a signal ends the command. */
  get signal(): AbortSignal {
    return this.#ending.signal;
  }

  /** Lets the next signal end the command, with a new {@link signal}. */
  endCommand(when: string): void {
    const ending = new AbortController();
    this.#ending = ending;
    this.#handle = (interruption) => {
      const signal = signalOf(interruption);
      const details = { kind: 'interrupted', exitCode: signalExitCode(signal) };
      ending.abort(new RunError(`interrupted by ${signal} ${when}`, details));
    };
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
