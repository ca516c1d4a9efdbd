import { getSystemErrorMap } from 'node:util';

/** What the client can conclude: the file does not exist, the request is invalid or not allowed, or the system failed. */
export type FileErrorKind = 'notFound' | 'refused' | 'failed';

/** A file operation that failed. */
export class FileError extends Error {
  override readonly name = 'FileError';
  readonly kind: FileErrorKind;
  /** The errno of the system call; null when the server itself rejected the operation. */
  readonly errno: number | null;

  constructor(kind: FileErrorKind, message: string, errno: number | null = null) {
    super(message);
    this.kind = kind;
    this.errno = errno;
  }
}

/** An error for a request that is invalid or not allowed. */
export function refused(message: string): FileError {
  return new FileError('refused', message);
}

/** Errno values of Linux by name. */
export const Errno = {
  EPERM: 1,
  ENOENT: 2,
  EIO: 5,
  ENXIO: 6,
  EBADF: 9,
  EACCES: 13,
  EBUSY: 16,
  EEXIST: 17,
  EXDEV: 18,
  ENOTDIR: 20,
  EISDIR: 21,
  EINVAL: 22,
  EMFILE: 24,
  ETXTBSY: 26,
  EFBIG: 27,
  ENOSPC: 28,
  EROFS: 30,
  EPIPE: 32,
  ENAMETOOLONG: 36,
  ENOTEMPTY: 39,
  ELOOP: 40,
} as const;

/** The error of a system call. The message is the one that the reference sends. */
export function systemError(errno: number): FileError {
  const text = TEXTS.get(errno) ?? libuvText(errno);
  return new FileError(KINDS.get(errno) ?? 'failed', `${text} (os error ${errno})`, errno);
}

/** Converts an error of `node:fs` to a {@link FileError}. Returns any other value unchanged. */
export function toFileError(error: unknown): unknown {
  if (error instanceof FileError || !(error instanceof Error)) return error;
  const { errno } = error as NodeJS.ErrnoException;
  return typeof errno === 'number' ? systemError(Math.abs(errno)) : error;
}

/** Whether the error is a {@link FileError} with this error number. */
export function isErrno(error: unknown, errno: number): boolean {
  return error instanceof FileError && error.errno === errno;
}

/** The code of a system error (`ENOENT`), or null. */
export function errorCode(error: unknown): string | null {
  const code = error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined;
  return typeof code === 'string' ? code : null;
}

const KINDS: ReadonlyMap<number, FileErrorKind> = new Map<number, FileErrorKind>([
  [Errno.ENOENT, 'notFound'],
  [Errno.EINVAL, 'refused'],
  [Errno.EACCES, 'refused'],
  [Errno.EPERM, 'refused'],
]);

const TEXTS: ReadonlyMap<number, string> = new Map([
  [Errno.EPERM, 'Operation not permitted'],
  [Errno.ENOENT, 'No such file or directory'],
  [Errno.EIO, 'I/O error'],
  [Errno.ENXIO, 'No such device or address'],
  [Errno.EBADF, 'Bad file descriptor'],
  [Errno.EACCES, 'Permission denied'],
  [Errno.EBUSY, 'Resource busy'],
  [Errno.EEXIST, 'File exists'],
  [Errno.EXDEV, 'Cross-device link'],
  [Errno.ENOTDIR, 'Not a directory'],
  [Errno.EISDIR, 'Is a directory'],
  [Errno.EINVAL, 'Invalid argument'],
  [Errno.EMFILE, 'No file descriptors available'],
  [Errno.ETXTBSY, 'Text file busy'],
  [Errno.EFBIG, 'File too large'],
  [Errno.ENOSPC, 'No space left on device'],
  [Errno.EROFS, 'Read-only file system'],
  [Errno.EPIPE, 'Broken pipe'],
  [Errno.ENAMETOOLONG, 'Filename too long'],
  [Errno.ENOTEMPTY, 'Directory not empty'],
  [Errno.ELOOP, 'Symbolic link loop'],
]);

function libuvText(errno: number): string {
  const text = getSystemErrorMap().get(-errno)?.[1] ?? 'unknown error';
  return text.charAt(0).toUpperCase() + text.slice(1);
}
