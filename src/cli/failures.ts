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
      'could not serve: bad listen URL, port in use, unreadable file, unexpected error; an audit log that fails verification; a sandbox that is not reliable',
  },
  usage: { code: 2, meaning: 'bad usage: unknown flag or command, or an invalid value from any source' },
} as const;

/** The command line is wrong. */
export class UsageError extends Error {
  override readonly name = 'UsageError';
  /** The command whose help describes the right usage; null for the program's own. */
  readonly command: string | null;

  constructor(message: string, command: string | null = null) {
    super(message);
    this.command = command;
  }
}

/** The command line is right, but the command failed. The message says why and how to fix it. */
export class RunError extends Error {
  override readonly name = 'RunError';
}

/** How a failure is shown and the exit code. `text` has no trailing newline. */
interface FailureReport {
  readonly text: string;
  readonly exitCode: number;
}

/** Describes anything that was thrown. The stack of an unexpected error is shown only when `debug` is true. */
export function reportFailure(error: unknown, debug: boolean): FailureReport {
  const message = oneLine(error instanceof Error ? error.message : String(error));
  if (error instanceof UsageError || error instanceof ConfigError) {
    const command = error instanceof UsageError && error.command !== null ? ` ${error.command}` : '';
    const hint = SUGGESTS.test(message) ? '' : `\nTry 'exec-server${command || ' serve'} --help'.`;
    return { text: `exec-server${command}: ${message}${hint}`, exitCode: EXIT_CODES.usage.code };
  }
  const exitCode = EXIT_CODES.failure.code;
  // The client library is not loaded for its class.
  const isExplained = error instanceof Error && error.name === 'ClientError';
  if (isExplained || error instanceof RunError || error instanceof StartError)
    return { text: `exec-server: ${message}`, exitCode };
  const stack = debug && error instanceof Error ? `\n${error.stack}` : '';
  return { text: `exec-server: unexpected error: ${message}${stack}`, exitCode };
}

/** The message already says what to type. */
const SUGGESTS = /; (?:did you mean '.*'\?|'exec-server [^']*' lists .*)$/;

function oneLine(text: string): string {
  return text.trim().replace(/\s*[\r\n]+\s*/g, ' ');
}
