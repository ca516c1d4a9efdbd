/** The signal that an exit code stands for; null when it stands for none that has the same number on every system. */
export function signalOf(exitCode: number | null): string | null {
  return exitCode === null ? null : (SIGNALS[exitCode - 128] ?? null);
}

/** Signals that end programs and have the same number on every system. */
const SIGNALS: Readonly<Record<number, string>> = {
  1: 'SIGHUP',
  2: 'SIGINT',
  3: 'SIGQUIT',
  4: 'SIGILL',
  6: 'SIGABRT',
  8: 'SIGFPE',
  9: 'SIGKILL',
  11: 'SIGSEGV',
  13: 'SIGPIPE',
  14: 'SIGALRM',
  15: 'SIGTERM',
};
