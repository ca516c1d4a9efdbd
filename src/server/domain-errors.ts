import { PathUriError } from '../files/path-uri.ts';
import { ProcessError, type ProcessErrorCode } from '../process/errors.ts';
import { SpawnError } from '../process/spawn/spawner.ts';
import { internalError, invalidParams, invalidRequest, RpcError } from '../protocol/errors.ts';

const PROCESS_ERRORS: Readonly<Record<ProcessErrorCode, (message: string) => RpcError>> = {
  unknownProcess: invalidRequest,
  duplicateProcess: invalidRequest,
  tooManyProcesses: invalidRequest,
  startCancelled: invalidRequest,
  shuttingDown: invalidRequest,
  notATerminal: invalidRequest,
  emptyArgv: invalidParams,
  policyTooLarge: invalidParams,
  unknownSignal: invalidParams,
  stdinGone: internalError,
  stdinFull: internalError,
};

/** The wire's word for an error of the domain, or null when it is not one: then it is a defect. */
export function domainErrorToRpc(error: unknown): RpcError | null {
  if (error instanceof RpcError) return error;
  if (error instanceof ProcessError) return PROCESS_ERRORS[error.code](error.message);
  if (error instanceof SpawnError) return internalError(error.message);
  if (error instanceof PathUriError) {
    return error.kind === 'invalid' ? invalidParams(error.message) : internalError(error.message);
  }
  return null;
}
