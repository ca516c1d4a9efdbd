import { systemReason } from '../client/system-error.ts';
import { StartError } from '../listener/start-error.ts';
import { ConfigError } from '../server/config/resolve.ts';
import { visible, withoutErrorNumber } from './terminal-text.ts';

/** What the exit codes of `exec-server` mean. */
export const EXIT_CODES = {
  success: {
    code: 0,
    meaning: 'stopped by a signal or by the end of stdin; help, version or settings printed',
  },
  failure: {
    code: 1,
    meaning:
      'could not serve: bad listen URL, port in use, unexpected error; a file that cannot be read or written; an audit log that fails verification; a sandbox that is not reliable',
  },
  usage: { code: 2, meaning: 'bad usage: unknown flag or command, or an invalid value from any source' },
} as const;

/** What the exit codes of commands that use an environment mean; any other code is the program's own. */
export const PROGRAM_EXIT_CODES = {
  usage: { code: 2, meaning: 'bad usage' },
  timedOut: { code: 124, meaning: 'the program ran longer than --timeout, or exceeded a limit' },
  failure: {
    code: 125,
    meaning:
      'exec-server failed, has lost the server, or has lost output; stderr says whether the program still runs',
  },
  notExecutable: { code: 126, meaning: 'the program cannot be executed' },
  notFound: { code: 127, meaning: 'there is no such program' },
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
  /** The machine-readable reason, which `--json` prints: a kind of ClientError or one of the command. */
  readonly kind: string;
  /** The exit code; null for that of every failure of the command. */
  readonly exitCode: number | null;

  constructor(message: string, { kind = 'failed', exitCode = null }: RunErrorDetails = {}) {
    super(message);
    this.kind = kind;
    this.exitCode = exitCode;
  }
}

/** Whether writing has failed because the reader of a pipe has ended, or because a terminal was closed. */
export function isReaderGone({ code }: NodeJS.ErrnoException): boolean {
  return code === 'EPIPE' || code === 'EIO';
}

/** The error for output that cannot be written, because a disk is full for example. `consequence` says what that means. */
export function cannotWrite(stream: 'stdout' | 'stderr', error: Error, consequence?: string): RunError {
  const end = consequence === undefined ? '' : `; ${consequence}`;
  return new RunError(`cannot write to ${stream}: ${systemReason(error)}${end}`, { kind: 'storage' });
}

interface RunErrorDetails {
  readonly kind?: string;
  readonly exitCode?: number | null;
}

/** How a failure is shown and the exit code. `text` has no trailing newline. */
interface FailureReport {
  readonly text: string;
  readonly exitCode: number;
}

/** How the failures of a command are reported. */
export interface FailureStyle {
  /** The exit code of failures other than bad usage. */
  readonly exitCode: number;
  /** Whether stderr gets a JSON object instead of a sentence. */
  readonly json: boolean;
}

/** How the commands of servers report their failures. */
export const SERVER_FAILURES: FailureStyle = { exitCode: EXIT_CODES.failure.code, json: false };

/** How the commands that use an environment report theirs. */
export const PROGRAM_FAILURES: FailureStyle = { exitCode: PROGRAM_EXIT_CODES.failure.code, json: false };

/** Describes anything that was thrown. The stack of an unexpected error is shown only when `debug` is true. */
export function reportFailure(error: unknown, debug: boolean, style = SERVER_FAILURES): FailureReport {
  const message = oneLine(textOf(error));
  if (error instanceof UsageError || error instanceof ConfigError) {
    const command = error instanceof UsageError && error.command !== null ? ` ${error.command}` : '';
    const hint = SUGGESTS.test(message) ? '' : `\nTry 'exec-server${command || ' serve'} --help'.`;
    const text = style.json ? jsonFailure('usage', message) : `exec-server${command}: ${message}${hint}`;
    return { text, exitCode: EXIT_CODES.usage.code };
  }
  const exitCode = (error instanceof RunError ? error.exitCode : null) ?? style.exitCode;
  if (isExplained(error)) {
    const text = style.json ? jsonFailure(error.kind, message) : `exec-server: ${message}`;
    return { text, exitCode };
  }
  const stack =
    debug && error instanceof Error ? `\n${(error.stack ?? '').split('\n').map(visible).join('\n')}` : '';
  const text = style.json
    ? jsonFailure('unexpected', message)
    : `exec-server: unexpected error: ${message}${stack}`;
  return { text, exitCode };
}

/** Whether the message is for users. The client library is not loaded for its class. */
function isExplained(error: unknown): error is Error & { readonly kind?: string } {
  return (
    isDirectoryGone(error) ||
    error instanceof RunError ||
    error instanceof StartError ||
    (error instanceof Error && ['ClientError', 'TransferError'].includes(error.name))
  );
}

/** What was thrown, in words. Texts of a server that does not start may be those of the reference, with the number of the error. */
function textOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  if (isDirectoryGone(error)) return systemReason(error);
  if (!(error instanceof StartError)) return withoutErrorNumber(error.message);
  return error.cause instanceof Error
    ? error.message.replace(error.cause.message, systemReason(error.cause))
    : error.message;
}

/** Whether the working directory of this process was deleted. Every relative path needs it. */
function isDirectoryGone(error: unknown): boolean {
  return error instanceof Error && (error as NodeJS.ErrnoException).syscall === 'uv_cwd';
}

/** A failure for programs. What follows the last semicolon of a message says how to fix it. */
export function jsonFailure(code = 'failed', text: string): string {
  const [, message = text, hint = null] = /^(.*); ([^;]*)$/.exec(text) ?? [];
  return JSON.stringify({ code, message, hint });
}

/** The message already says what to type. */
const SUGGESTS = /; (?:did you mean '.*'\?|'exec-server [^']*' lists .*)$/;

/** Messages have text of servers, files and arguments, which may have control characters. */
function oneLine(text: string): string {
  return visible(text.trim().replace(/\s*[\r\n]+\s*/g, ' '));
}
