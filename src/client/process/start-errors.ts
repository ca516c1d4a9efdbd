import { RpcErrorCode } from '../../protocol/errors.ts';
import type { StartParams } from '../backend.ts';
import { asClientError, namingOptions } from '../connection/call-errors.ts';
import { ClientError, type ClientErrorKind } from '../errors.ts';
import { toNativePath } from '../paths.ts';

/** Converts what a start threw. An error of the system gets the kind that says what is missing, and names it. */
export function startError(error: unknown, { argv, cwd }: Pick<StartParams, 'argv' | 'cwd'>): ClientError {
  const failure = asClientError(error, 'process/start');
  const { code, data, message } = failure;
  if (code === RpcErrorCode.invalidParams) return namingOptions(failure);
  if (code !== RpcErrorCode.internal) return failure;
  const found = FAILURES.find(({ pattern }) => pattern.test(message));
  if (found === undefined) return failure;
  const start = `${argv[0]} could not be started in ${toNativePath(cwd)}`;
  const text = OS_ERROR.test(message) ? `${start}: ${message}` : message;
  return new ClientError(found.kind, text, { code, data, cause: error, hint: found.hint });
}

/** The whole message of servers that pass on the error of the system. It names no path. */
const OS_ERROR = /^[\w ]+ \(os error \d+\)$/;

const INSTALL = 'install it on the machine that runs it, or pass its path';
const ALLOW = 'let the user of the program enter the directory, or pass another `cwd`';
const EXECUTABLE = 'make it an executable file, or pass the program that reads it';
const DIRECTORY = 'create the directory, or pass another `cwd`';

/** How servers say what is missing: first this one, then the reference, which does not say which path it is. */
const FAILURES: readonly {
  readonly pattern: RegExp;
  readonly kind: ClientErrorKind;
  readonly hint: string;
}[] = [
  { pattern: /^cwd .* does not exist$/s, kind: 'directoryNotFound', hint: DIRECTORY },
  { pattern: /^cwd .* is not a directory$/s, kind: 'notDirectory', hint: 'pass a directory as `cwd`' },
  { pattern: /^cwd .* is not accessible$/s, kind: 'permissionDenied', hint: ALLOW },
  { pattern: /^program .* does not exist$/s, kind: 'programNotFound', hint: INSTALL },
  { pattern: /^program not found on PATH: /, kind: 'programNotFound', hint: INSTALL },
  {
    pattern: / cannot run: the interpreter or loader it names does not exist$/,
    kind: 'programNotFound',
    hint: 'install the interpreter, or pass it as the program',
  },
  {
    pattern: /^program .* cannot be reached: a directory of its path is not accessible$/s,
    kind: 'permissionDenied',
    hint: 'let the user of the program enter the directory, or pass another program',
  },
  {
    pattern: / is not (?:a regular file|executable(?: \(PATH=.*\))?)$/s,
    kind: 'permissionDenied',
    hint: EXECUTABLE,
  },
  {
    pattern: /^No such file or directory \(os error 2\)$/,
    kind: 'programNotFound',
    hint: 'check that the program, its interpreter and the directory exist',
  },
  { pattern: /No viable candidates found in PATH/, kind: 'programNotFound', hint: INSTALL },
  { pattern: /^Not a directory \(os error 20\)$/, kind: 'directoryNotFound', hint: DIRECTORY },
  { pattern: /^Permission denied \(os error 13\)$/, kind: 'permissionDenied', hint: EXECUTABLE },
];
