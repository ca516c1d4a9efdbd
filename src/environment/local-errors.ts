import type { CallOptions } from '../client/backend.ts';
import { CallLimit } from '../client/call-limit.ts';
import { ClientError } from '../client/errors.ts';
import { fileRefusal, RpcErrorCode } from '../client/files/file-errors.ts';
import { FileError, type FileErrorKind } from '../files/errors.ts';
import { PathUriError } from '../files/path-uri.ts';
import { NetworkError, type NetworkErrorKind } from '../network/errors.ts';
import { ProcessError, type ProcessErrorKind } from '../process/errors.ts';
import { SpawnError } from '../process/spawn/spawner.ts';
import { SandboxError, type SandboxErrorKind } from '../sandbox/errors.ts';

/**
 * Does something on this machine within the caller's limits, and fails as a server would have failed. `signal` aborts when the
 * result is no longer wanted.
 */
export async function locally<T>(
  what: string,
  options: CallOptions,
  work: (signal: AbortSignal) => Promise<T>,
): Promise<T> {
  const limit = new CallLimit(what, options);
  const unwanted = new AbortController();
  try {
    limit.signal?.throwIfAborted();
    return await limit.race(work(unwanted.signal));
  } catch (error) {
    throw asServerError(error);
  } finally {
    limit.end();
    unwanted.abort();
  }
}

/** What is said when this machine is used after its owner has closed it as an environment, or in part. */
export function closedError(): ClientError {
  return new ClientError('closed', "environment 'local' was closed", { hint: 'open another one' });
}

/** What the domain threw, in the kinds and codes of a server's answer; a defect stays as it is. */
export function asServerError(error: unknown): unknown {
  if (error instanceof ProcessError) return serverError(PROCESS_CODES[error.kind], error);
  if (error instanceof SpawnError) return serverError(RpcErrorCode.internal, error);
  if (error instanceof SandboxError) return serverError(SANDBOX_CODES[error.kind], error);
  if (error instanceof NetworkError) return serverError(NETWORK_CODES[error.kind], error);
  if (error instanceof FileError) return fileRefusal(FILE_CODES[error.kind], error.message, { cause: error });
  if (error instanceof PathUriError)
    return fileRefusal(URI_CODES[error.kind], error.message, { cause: error });
  return error;
}

function serverError(code: number, cause: Error): ClientError {
  return new ClientError('server', cause.message, { code, cause });
}

const PROCESS_CODES: Readonly<Record<ProcessErrorKind, number>> = {
  invalid: RpcErrorCode.invalidParams,
  refused: RpcErrorCode.invalidRequest,
  failed: RpcErrorCode.internal,
};

const SANDBOX_CODES: Readonly<Record<SandboxErrorKind, number>> = {
  invalid: RpcErrorCode.invalidParams,
  foreignRule: RpcErrorCode.invalidRequest,
  unsuitable: RpcErrorCode.invalidRequest,
  unenforceable: RpcErrorCode.internal,
};

const NETWORK_CODES: Readonly<Record<NetworkErrorKind, number>> = {
  invalid: RpcErrorCode.invalidParams,
  refused: RpcErrorCode.invalidRequest,
  failed: RpcErrorCode.internal,
  limit: RpcErrorCode.limitExceeded,
};

const FILE_CODES: Readonly<Record<FileErrorKind, number>> = {
  notFound: RpcErrorCode.notFound,
  refused: RpcErrorCode.invalidRequest,
  failed: RpcErrorCode.internal,
};

const URI_CODES: Readonly<Record<PathUriError['kind'], number>> = {
  syntax: RpcErrorCode.invalidParams,
  foreign: RpcErrorCode.invalidRequest,
};
