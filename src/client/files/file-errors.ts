import { RpcErrorCode } from '../../protocol/errors.ts';
import { ClientError, type ClientErrorDetails, type ClientErrorKind } from '../errors.ts';

export { RpcErrorCode };

/** Creates the error of a file operation that the executor refused with a JSON-RPC code. */
export function fileRefusal(code: number, message: string, details: ClientErrorDetails = {}): ClientError {
  return new ClientError(KINDS.get(code) ?? 'server', message, { ...details, code });
}

/** Converts what a call threw to the error kinds of file operations. Kinds that mean the same everywhere stay. */
export function asFileError(error: unknown): unknown {
  if (!(error instanceof ClientError)) return error;
  if (error.kind === 'server' && error.code !== null) {
    return fileRefusal(error.code, error.message, { data: error.data, cause: error });
  }
  if (error.kind === 'disconnected') return new ClientError('brokenPipe', error.message, { cause: error });
  return error;
}

const KINDS: ReadonlyMap<number, ClientErrorKind> = new Map<number, ClientErrorKind>([
  [RpcErrorCode.notFound, 'notFound'],
  [RpcErrorCode.invalidRequest, 'invalidInput'],
]);
