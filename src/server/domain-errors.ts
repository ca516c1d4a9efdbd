import { FileError, type FileErrorKind } from '../files/errors.ts';
import { PathUriError } from '../files/path-uri.ts';
import { NetworkError, type NetworkErrorKind } from '../network/errors.ts';
import { ProcessError, type ProcessErrorKind } from '../process/errors.ts';
import { SpawnError } from '../process/spawn/spawner.ts';
import {
  internalError,
  invalidParams,
  invalidRequest,
  limitExceeded,
  notFound,
  RpcError,
} from '../protocol/errors.ts';
import { SandboxError, type SandboxErrorKind } from '../sandbox/errors.ts';

const PROCESS_ERRORS: Readonly<Record<ProcessErrorKind, (message: string) => RpcError>> = {
  invalid: invalidParams,
  refused: invalidRequest,
  failed: internalError,
  limit: limitExceeded,
};

const FILE_ERRORS: Readonly<Record<FileErrorKind, (message: string) => RpcError>> = {
  notFound,
  refused: invalidRequest,
  failed: internalError,
};

const NETWORK_ERRORS: Readonly<Record<NetworkErrorKind, (message: string) => RpcError>> = {
  invalid: invalidParams,
  refused: invalidRequest,
  failed: internalError,
  limit: limitExceeded,
};

const SANDBOX_ERRORS: Readonly<Record<SandboxErrorKind, (message: string) => RpcError>> = {
  invalid: invalidParams,
  foreignRule: invalidRequest,
  unsuitable: invalidRequest,
  unenforceable: internalError,
};

/** The RPC error for an error of a domain folder; null for any other error, which is a defect. */
export function domainErrorToRpc(error: unknown): RpcError | null {
  if (error instanceof RpcError) return error;
  if (error instanceof ProcessError) return PROCESS_ERRORS[error.kind](error.message);
  if (error instanceof SpawnError) return internalError(error.message);
  if (error instanceof PathUriError) {
    return error.kind === 'syntax' ? invalidParams(error.message) : invalidRequest(error.message);
  }
  if (error instanceof FileError) return FILE_ERRORS[error.kind](error.message);
  if (error instanceof SandboxError) return SANDBOX_ERRORS[error.kind](error.message);
  if (error instanceof NetworkError) return NETWORK_ERRORS[error.kind](error.message);
  return null;
}
