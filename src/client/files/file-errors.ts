import { RpcErrorCode } from '../../protocol/errors.ts';
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
  return new FileOperationError(action, path, error);
}

/** Whether an operation failed in this way. */
export function failedWith(error: unknown, ...kinds: readonly ClientErrorKind[]): boolean {
  return error instanceof ClientError && kinds.includes(kindOf(error));
}

/** The errno of the system call that failed; null where the message has none. */
export function errnoOf(error: unknown): number | null {
  const found = error instanceof ClientError ? OS_ERROR.exec(messageWithoutHint(error)) : null;
  return found === null ? null : Number(found[1]);
}

class FileOperationError extends ClientError {
  constructor(action: string, path: PathLike, error: ClientError) {
    const kind = kindOf(error);
    super(kind, `cannot ${action} ${shownPath(path)}: ${messageWithoutHint(error)}`, {
      code: error.code ?? undefined,
      data: error.data,
      hint: error.hint ?? HINTS.get(kind),
      retryable: error.retryable,
      cause: error,
    });
  }
}

function kindOf(error: ClientError): ClientErrorKind {
  if (error.code === RpcErrorCode.forbidden) return 'permissionDenied';
  const errno = errnoOf(error);
  return (errno !== null && ERRNO_KINDS.get(errno)) || error.kind;
}

/** A native path where there is one. Control characters would garble a log. */
function shownPath(path: PathLike): string {
  const text = toNativePath(String(path));
  return /[\u0000-\u001f\u007f]/.test(text) ? JSON.stringify(text) : text;
}

/** How this server and the reference end the message about a system call that failed. */
const OS_ERROR = /\(os error (\d+)\)$/;

/** Errno values of Linux. */
const ERRNO_KINDS: ReadonlyMap<number, ClientErrorKind> = new Map<number, ClientErrorKind>([
  [1, 'permissionDenied'], // EPERM
  [2, 'notFound'], // ENOENT
  [13, 'permissionDenied'], // EACCES
  [17, 'exists'], // EEXIST
  [20, 'notDirectory'], // ENOTDIR
  [21, 'isDirectory'], // EISDIR
  [30, 'permissionDenied'], // EROFS, also what a sandbox reports for a path that may only be read
]);

const HINTS: ReadonlyMap<ClientErrorKind, string> = new Map<ClientErrorKind, string>([
  ['permissionDenied', "check the permissions of the server's user, the sandbox and the token"],
]);
