import { escapeUnprintable } from '../../base/unprintable.ts';
import { namingOptions } from '../connection/call-errors.ts';
import { errnoIn } from '../connection/error-kinds.ts';
import { ClientError, type ClientErrorKind, messageWithoutHint } from '../errors.ts';
import { type PathLike, toNativePath } from '../paths.ts';

/**
 * Runs a file operation. Its error names the path, and common failures have a kind of their own: `notFound`, `permissionDenied`,
 * `isDirectory`, `notDirectory` and `exists`.
 */
export async function withPath<T>(action: string, path: PathLike, work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw namingPath(action, path, error);
  }
}

/** The same error with what failed and where. Returns an error that names it already, or is no ClientError, unchanged. */
export function namingPath(action: string, path: PathLike, error: unknown): unknown {
  if (!(error instanceof ClientError) || error instanceof FileOperationError) return error;
  return new FileOperationError(action, path, namingOptions(error));
}

/** Whether an operation failed in this way. */
export function failedWith(error: unknown, ...kinds: readonly ClientErrorKind[]): boolean {
  return error instanceof ClientError && kinds.includes(error.kind);
}

/** The errno of the system call that failed; null where the message has none. */
export function errnoOf(error: unknown): number | null {
  return error instanceof ClientError ? errnoIn(messageWithoutHint(error)) : null;
}

/** Whether a file could not be written because the disk, or the share of the user, is full: on the server or on this machine. */
export function isDiskFull(error: unknown): boolean {
  const errno = errnoOf(error);
  if (errno !== null) return DISK_FULL_ERRNOS.has(errno);
  const { code, cause } = error as NodeJS.ErrnoException;
  return [code, (cause as NodeJS.ErrnoException | undefined)?.code].some((each) =>
    DISK_FULL_CODES.has(each ?? ''),
  );
}

/** Of Linux, as servers report them. */
const DISK_FULL_ERRNOS: ReadonlySet<number> = new Set([28, 122]);
const DISK_FULL_CODES: ReadonlySet<string> = new Set(['ENOSPC', 'EDQUOT']);

class FileOperationError extends ClientError {
  constructor(action: string, path: PathLike, error: ClientError) {
    super(error.kind, `cannot ${action} ${shownPath(path)}: ${messageWithoutHint(error)}`, {
      code: error.code ?? undefined,
      data: error.data,
      hint: error.hint ?? (isDiskFull(error) ? 'free some space there' : HINTS.get(error.kind)),
      retryable: error.retryable,
      cause: error,
    });
  }
}

/** A native path where there is one. Control and invisible characters would garble a log. */
function shownPath(path: PathLike): string {
  const text = toNativePath(String(path));
  const shown = escapeUnprintable(text);
  return shown === text ? text : escapeUnprintable(JSON.stringify(text));
}

const HINTS: ReadonlyMap<ClientErrorKind, string> = new Map<ClientErrorKind, string>([
  ['permissionDenied', "check the permissions of the server's user, the sandbox and the token"],
]);
