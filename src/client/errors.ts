/** Machine-readable reason of a {@link ClientError}. */
export type ClientErrorKind =
  /** The server could not be reached in time. */
  | 'connectTimeout'
  /** The server, or the host of a TCP stream, could not be reached, or it refused the connection. */
  | 'connectFailed'
  /** The options are invalid: a bad URL, a missing program. */
  | 'config'
  /** The server was reached but did not answer `initialize` in time. */
  | 'initializeTimeout'
  /** The connection is gone. Recovery was not possible or did not succeed. */
  | 'disconnected'
  /** The server sent an invalid message. */
  | 'protocol'
  /** The server failed. */
  | 'server'
  /** The call's own deadline passed. */
  | 'timeout'
  /** The caller's signal aborted the call. */
  | 'aborted'
  /** A limit of the client or of the server is reached, which the message names. */
  | 'overloaded'
  /** The client was closed by its owner, or has detached from the process. */
  | 'closed'
  /** The server lacks a capability that the call needs. */
  | 'unsupported'
  /** A local program could not be started, such as a server on stdio. */
  | 'spawn'
  /** A path, handle or process does not exist. */
  | 'notFound'
  /** The program to start, or its interpreter, does not exist. */
  | 'programNotFound'
  /** The working directory of a program does not exist. */
  | 'directoryNotFound'
  /** The system, a sandbox or the token of the connection does not permit it. */
  | 'permissionDenied'
  /** A path is a directory where a file is needed. */
  | 'isDirectory'
  /** A path, or a part of it, is not a directory where one is needed. */
  | 'notDirectory'
  /** A path exists already. */
  | 'exists'
  /** The call is wrong: an unknown option, a value of a wrong kind, something that this process or path cannot do. */
  | 'invalidInput'
  /** The bytes are not what was expected: not UTF-8, bad base64, a block of the wrong size. */
  | 'invalidData'
  /** The program reads no more input: its stdin was closed, or it has ended. */
  | 'stdinClosed'
  /** The connection was lost before the answer came; the operation may have happened. */
  | 'brokenPipe'
  /** Output of a process is lost: the server no longer retains it. */
  | 'outputLost'
  /** Another client drives the process or uses the session, another writer has changed what the call depends on, or a name, id or local port is in use. */
  | 'conflict'
  /** A file of this machine could not be read or written. */
  | 'storage';

export interface ClientErrorDetails {
  /** JSON-RPC code, when the server answered with an error. */
  readonly code?: number | undefined;
  readonly data?: unknown;
  /** How to fix it, as a sentence. It is appended to the message. */
  readonly hint?: string | undefined;
  readonly cause?: unknown;
  /** Whether the same call may succeed later without any other change. */
  readonly retryable?: boolean | undefined;
}

/** Every error that the client library throws. */
export class ClientError extends Error {
  override readonly name: string = 'ClientError';
  readonly kind: ClientErrorKind;
  readonly code: number | null;
  readonly data: unknown;
  readonly hint: string | null;
  readonly retryable: boolean;

  constructor(kind: ClientErrorKind, message: string, details: ClientErrorDetails = {}) {
    super(details.hint === undefined ? message : `${message}; ${details.hint}`, { cause: details.cause });
    this.kind = kind;
    this.code = details.code ?? null;
    this.data = details.data;
    this.hint = details.hint ?? null;
    this.retryable = details.retryable ?? false;
  }
}

/** The message of an error without its hint. */
export function messageWithoutHint({ message, hint }: ClientError): string {
  return hint === null ? message : message.slice(0, -`; ${hint}`.length);
}

/**
 * Replaces the stack of a ClientError by the stack of the current function and its async callers. An error that was created by a message
 * handler or a timer has no caller in its stack. Call it after an `await`, in a function that its caller awaits.
 */
export function withCallerStack(error: unknown): unknown {
  if (error instanceof ClientError) Error.captureStackTrace?.(error, withCallerStack);
  return error;
}
