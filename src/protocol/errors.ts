import { UNPRINTABLE } from '../base/unprintable.ts';

/** Error codes of a server. */
export const RpcErrorCode = {
  /** A malformed message (answered with id -1), a call out of order, an unknown session or process, a duplicate process id. */
  invalidRequest: -32600,
  /** No such method. */
  methodNotFound: -32601,
  /** The params do not fit the method's schema. */
  invalidParams: -32602,
  /** The operating system refused, or something broke inside the server. */
  internal: -32603,
  /** The token of the connection does not allow this. */
  forbidden: -32003,
  /** A file or directory does not exist, a file handle is unknown, or no process can be attached to. */
  notFound: -32004,
  /** A limit of the server is reached. The message names it. Running processes continue. */
  limitExceeded: -32001,
  /** The session to resume is attached to another connection. A later attempt may succeed. */
  sessionAttached: -32010,
  /** Another client drives the process. Attach with `takeOver` to drive it. */
  processDriven: -32011,
} as const;

/** A JSON-RPC error. */
export class RpcError extends Error {
  override readonly name = 'RpcError';
  readonly code: number;
  readonly data: unknown;

  constructor(code: number, message: string, data?: unknown) {
    super(message);
    this.code = code;
    this.data = data;
  }
}

/** The request is well-formed but not possible now or not allowed. */
export function invalidRequest(message: string): RpcError {
  return new RpcError(RpcErrorCode.invalidRequest, message);
}

/** The token does not allow the request, regardless of its params. */
export function forbidden(message: string): RpcError {
  return new RpcError(RpcErrorCode.forbidden, message);
}

/** The method does not exist on this server. */
export function methodNotFound(method: string): RpcError {
  return new RpcError(RpcErrorCode.methodNotFound, `exec-server does not implement \`${printable(method)}\``);
}

/** A parameter is missing, of the wrong type or out of range. */
export function invalidParams(message: string): RpcError {
  return new RpcError(RpcErrorCode.invalidParams, message);
}

/** The operating system or the server itself failed. */
export function internalError(message: string): RpcError {
  return new RpcError(RpcErrorCode.internal, message);
}

/** The file, directory or handle does not exist. */
export function notFound(message: string): RpcError {
  return new RpcError(RpcErrorCode.notFound, message);
}

/** A limit of the server is reached. The message names it. */
export function limitExceeded(message: string): RpcError {
  return new RpcError(RpcErrorCode.limitExceeded, message);
}

/** The session is in use; the caller may retry. */
export function sessionAttached(sessionId: string): RpcError {
  return new RpcError(
    RpcErrorCode.sessionAttached,
    `session ${sessionId} is already attached to another connection`,
  );
}

/** Another client drives the process; the caller may take over. */
export function processDriven(message: string): RpcError {
  return new RpcError(RpcErrorCode.processDriven, message);
}

/** Makes a client's text safe to print: no control or invisible characters, limited length. */
export function printable(text: string, maxLength = 200): string {
  const clean = text.slice(0, maxLength).replace(UNPRINTABLE, '?');
  // A cut must not split a surrogate pair: strict peers refuse the whole message.
  return text.length > maxLength ? `${clean.replace(/[\ud800-\udbff]$/, '')}…` : clean;
}
