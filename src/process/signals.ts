import { constants } from 'node:os';

/** The number of a signal given as `interrupt` or by its POSIX name; null when there is no such signal. */
export function signalNumber(name: string): number | null {
  if (name === 'interrupt') return constants.signals.SIGINT;
  return Object.hasOwn(constants.signals, name) ? constants.signals[name as NodeJS.Signals] : null;
}

/** Names of all signals, for messages. */
export function signalNames(): string[] {
  return Object.keys(constants.signals);
}

export const SIGTERM = constants.signals.SIGTERM;

/** Signals with which people end a program. */
export const END_SIGNALS: ReadonlySet<number> = new Set(
  (['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGKILL', 'SIGPIPE'] as const).map(
    (name) => constants.signals[name],
  ),
);
