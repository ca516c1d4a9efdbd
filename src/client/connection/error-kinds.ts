import { RpcErrorCode } from '../../protocol/errors.ts';
import type { ClientErrorKind } from '../errors.ts';

/**
 * The kind of an error that a server answered with. The code decides, except for the codes that servers use for many causes: there the
 * message does.
 */
export function serverErrorKind(code: number, message: string): ClientErrorKind {
  const byCode = KINDS.get(code) ?? 'server';
  if (!SHARED_CODES.has(code)) return byCode;
  const errno = errnoIn(message);
  if (errno !== null) return ERRNO_KINDS.get(errno) ?? byCode;
  return MESSAGES.find(({ pattern }) => pattern.test(message))?.kind ?? byCode;
}

/** The errno of the system call that failed; null where the message has none. */
export function errnoIn(message: string): number | null {
  const found = OS_ERROR.exec(message);
  return found === null ? null : Number(found[1]);
}

/** How this server and the reference end the message about a system call that failed. */
const OS_ERROR = /\(os error (\d+)\)$/;

const KINDS: ReadonlyMap<number, ClientErrorKind> = new Map<number, ClientErrorKind>([
  [RpcErrorCode.invalidRequest, 'invalidInput'],
  [RpcErrorCode.methodNotFound, 'unsupported'],
  [RpcErrorCode.invalidParams, 'invalidInput'],
  [RpcErrorCode.internal, 'server'],
  [RpcErrorCode.forbidden, 'permissionDenied'],
  [RpcErrorCode.notFound, 'notFound'],
  [RpcErrorCode.limitExceeded, 'overloaded'],
  [RpcErrorCode.sessionAttached, 'conflict'],
  [RpcErrorCode.processDriven, 'conflict'],
]);

/** Codes that the protocol has for many causes. */
const SHARED_CODES: ReadonlySet<number> = new Set<number>([
  RpcErrorCode.invalidRequest,
  RpcErrorCode.internal,
  RpcErrorCode.notFound,
]);

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

/** What servers say, this one and the reference. A test starts this server and compares. */
const MESSAGES: readonly { readonly pattern: RegExp; readonly kind: ClientErrorKind }[] = [
  { pattern: /^unknown (?:process|session) id\b/, kind: 'notFound' },
  { pattern: /^process \S+ exited with code \d+ and closed at /, kind: 'notFound' },
  { pattern: /^process \S+ already exists$/, kind: 'conflict' },
  { pattern: /^the name \S+ is in use by the running process /, kind: 'conflict' },
  { pattern: /^the name \S+ is the reference of another process/, kind: 'conflict' },
  { pattern: /^this connection is attached to process \S+(?: as a viewer)?;/, kind: 'conflict' },
  { pattern: /^a process of this session has the id /, kind: 'conflict' },
  { pattern: /^process \S+ start was cancelled$/, kind: 'conflict' },
  { pattern: /, the configured maximum \(\w+\)$/, kind: 'overloaded' },
  { pattern: /^the server has \d+ of \d+ .* left; this session has /, kind: 'overloaded' },
  { pattern: /^(?:a connection may have )?at most \d+ (?:watches|file handles) ?/, kind: 'overloaded' },
  { pattern: /^tcp\/connect to \S+ failed: /, kind: 'connectFailed' },
  { pattern: /^the file has changed: .*; nothing was replaced$/, kind: 'conflict' },
  { pattern: /^the SHA-256 of the content is [0-9a-f]{64}, not /, kind: 'invalidData' },
  { pattern: / contains a NUL byte$/, kind: 'invalidInput' },
  { pattern: /^stdin is full: /, kind: 'overloaded' },
  { pattern: /^the process was terminated; its stdin is gone$/, kind: 'stdinClosed' },
  { pattern: /^(?:prepared|direct) starts are switched off /, kind: 'permissionDenied' },
  { pattern: /^\S+ is not allowed to reach /, kind: 'permissionDenied' },
  { pattern: /^this server does not allow .* the network \(/, kind: 'permissionDenied' },
  { pattern: /, and httpHeaderVariables does not list the variable$/, kind: 'permissionDenied' },
  { pattern: /^path is not within | itself cannot be changed, only its contents$/, kind: 'permissionDenied' },
  { pattern: / is not available to a client that is restricted to /, kind: 'permissionDenied' },
  { pattern: /, which this server does not have(?:: |$)/, kind: 'unsupported' },
  { pattern: /^params\.cwd: .* is not supported$/, kind: 'unsupported' },
  { pattern: /^the ports of programs are only known on Linux: /, kind: 'unsupported' },
  { pattern: /^the (?:server is shutting down|session is ending|session has ended)(?:;|$)/, kind: 'server' },
];
