import { StartError } from '../listener/start-error.ts';
import { ConfigError } from '../server/config/resolve.ts';

/** What the exit codes of `exec-server` mean. */
export const EXIT_CODES = {
  success: {
    code: 0,
    meaning: 'stopped by a signal or by the end of stdin; help, version or settings printed',
  },
  failure: {
    code: 1,
    meaning:
      'could not serve: bad listen URL, port in use, unreadable file, unexpected error; an audit log that is not whole; a sandbox that cannot be relied on',
  },
  usage: { code: 2, meaning: 'bad usage: unknown flag or command, or a bad value from any source' },
} as const;

/** The command line does not make sense. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
}

/** The command line makes sense, and what it asks for cannot be done; the message says what would cure it. */
export class RunError extends Error {
  override readonly name = 'RunError';
}

/** What keeps a program from listening on a port, and what helps, by the code of the system. */
export const LISTEN_FAILURES: Readonly<Record<string, string>> = {
  EADDRINUSE: 'the port is in use (choose another, or 0 for a free one)',
  EACCES: 'the port needs privileges (choose one above 1023, or 0 for a free one)',
  EADDRNOTAVAIL: 'this machine has no such address (use 127.0.0.1, or 0.0.0.0 for every interface)',
  EAFNOSUPPORT: 'this machine does not speak that kind of address (use 127.0.0.1)',
};

/** How a failure is shown and which code it exits with. `text` has no trailing newline. */
export interface FailureReport {
  readonly text: string;
  readonly exitCode: number;
}

/** Turns anything thrown into its report; the stack of an unexpected error is shown only when `debug`. */
export function reportFailure(error: unknown, debug: boolean): FailureReport {
  const message = oneLine(error instanceof Error ? error.message : String(error));
  if (error instanceof UsageError || error instanceof ConfigError) {
    return { text: `exec-server: ${message}\n${USAGE_HINT}`, exitCode: EXIT_CODES.usage.code };
  }
  const exitCode = EXIT_CODES.failure.code;
  if (error instanceof RunError || error instanceof StartError)
    return { text: `exec-server: ${message}`, exitCode };
  const stack = debug && error instanceof Error ? `\n${error.stack}` : '';
  return { text: `exec-server: unexpected error: ${message}${stack}`, exitCode };
}

const USAGE_HINT =
  "Usage: exec-server [serve|config|token|audit|doctor|relay|forward] [options]; try 'exec-server --help'.";

function oneLine(text: string): string {
  return text.trim().replace(/\s*[\r\n]+\s*/g, ' ');
}
