import { ClientError, type ClientErrorKind, messageWithoutHint } from '../../client/errors.ts';

import { ExecToolError } from '../errors.ts';
import { ToolFailure } from './failure.ts';
import { isDisconnected, type NamedEnvironment } from './workspace.ts';

/** Converts an error of a call to one with a text that a model can act on. */
export function asToolFailure(error: unknown, { name, environment }: NamedEnvironment): ToolFailure {
  if (error instanceof ToolFailure) return error;
  if (error instanceof ExecToolError) return new ToolFailure(sentence(error.message), {}, error);
  if (!(error instanceof ClientError)) {
    const message = error instanceof Error ? error.message : String(error);
    return new ToolFailure(`The tool failed: ${sentence(message)}`, { kind: 'internal' }, error);
  }
  const { hint } = error;
  const kind = causeOf(error);
  const message = messageWithoutHint(error);
  const isLost = UNREACHABLE.has(kind) || (kind === 'timeout' && isDisconnected(environment));
  const text = isLost
    ? `The server of the environment "${name}" cannot be reached: ${sentence(message)} ${UNKNOWN_STATE} Try again; if it stays unreachable, ask the user.`
    : `${sentence(capitalised(inWords(message)))}${adviceOf(error, hint)}`;
  return new ToolFailure(text, { kind: isSandboxMissing(error) ? 'sandboxUnavailable' : kind }, error);
}

/** What is known of programs while their server cannot be reached. */
export const UNKNOWN_STATE =
  'The state of its programs is unknown: they keep running if only the connection is lost, and have ended if the server has.';

/** Errors of files have one kind for a lost connection and a lost answer. Their cause distinguishes them. */
function causeOf({ kind, cause }: ClientError): ClientErrorKind {
  return kind === 'brokenPipe' && cause instanceof ClientError ? cause.kind : kind;
}

/** Errors after which the next call may succeed. */
const UNREACHABLE: ReadonlySet<ClientErrorKind> = new Set<ClientErrorKind>([
  'connectTimeout',
  'connectFailed',
  'initializeTimeout',
  'disconnected',
  'closed',
  'protocol',
  'spawn',
]);

function isSandboxMissing({ message }: ClientError): boolean {
  return /cannot be sandboxed on this machine/.test(message);
}

/** What a model can do. The hints of the client are for programs: they name its functions and options. */
function adviceOf(error: ClientError, hint: string | null): string {
  if (isSandboxMissing(error)) {
    return ' The sandbox is required and cannot be used there. Ask the user to run `exec-server doctor` on that machine, which says how to fix it.';
  }
  const own = ADVICE.get(error.kind);
  if (own !== undefined) return ` ${own}`;
  return hint === null || /`/.test(hint) ? '' : ` ${sentence(capitalised(hint))}`;
}

const ADVICE: ReadonlyMap<ClientErrorKind, string> = new Map<ClientErrorKind, string>([
  ['timeout', 'The server did not answer in time. Try again; the operation may have happened.'],
  ['brokenPipe', 'The operation may have happened: check before you repeat it.'],
  ['overloaded', 'Wait for other calls to end, then try again.'],
  ['permissionDenied', 'Choose another path or way, or ask the user for access.'],
]);

/** The members of requests that a message begins with, by the names that a model knows. */
function inWords(message: string): string {
  return message
    .replace(/^(?:params\.)?cwd\b/, 'the working directory')
    .replace(/^(?:params\.)?argv(?:\[\d+\])?/, 'the command')
    .replace(/^params\.(\w+)/, 'the $1');
}

function sentence(text: string): string {
  return /[.!?]$/.test(text) ? text : `${text}.`;
}

function capitalised(text: string): string {
  return text.charAt(0).toUpperCase() + text.slice(1);
}
