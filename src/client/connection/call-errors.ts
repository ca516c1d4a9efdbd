import { RpcError, RpcErrorCode } from '../../protocol/errors.ts';
import { TooManyCallsError } from '../../rpc/outgoing-calls.ts';
import { ClientError, type ClientErrorKind } from '../errors.ts';
import type { LinkEnd } from './link.ts';

/** Converts what a call threw into a ClientError. */
export function asClientError(error: unknown, method: string): ClientError {
  if (error instanceof ClientError) return error;
  if (error instanceof RpcError) return refused(error, method);
  if (error instanceof TooManyCallsError) {
    return new ClientError('overloaded', error.message, {
      cause: error,
      hint: 'wait for earlier calls before sending more',
      retryable: true,
    });
  }
  const message = error instanceof Error ? error.message : String(error);
  return new ClientError('invalidInput', `\`${method}\` could not be sent: ${message}`, { cause: error });
}

/** The connection ended before the call was answered. */
export function lostCall(method: string, end: LinkEnd): ClientError {
  return new ClientError(
    'brokenPipe',
    `the connection was lost before \`${method}\` was answered: ${end.reason}`,
    { hint: MAY_HAVE_HAPPENED },
  );
}

/**
 * The answer was lost and the retry failed. The error of the retry does not show whether the first attempt took
 * effect.
 */
export function lostRetry(method: string, failure: ClientError): ClientError {
  return new ClientError(
    'brokenPipe',
    `the answer to \`${method}\` was lost, and the retry failed: ${failure.message}`,
    { cause: failure, hint: MAY_HAVE_HAPPENED },
  );
}

/** Every attempt of the call ended with an invalid message from the server. */
export function protocolFailure(method: string, end: LinkEnd): ClientError {
  return new ClientError('protocol', `\`${method}\` got no valid answer: ${end.reason}`, {
    hint: 'check that no proxy between client and server alters messages',
    retryable: true,
  });
}

/** Converts what a call threw to the error kinds of file operations. Kinds that mean the same everywhere stay. */
export function asFileError(error: unknown): unknown {
  if (!(error instanceof ClientError)) return error;
  const { kind, code, message, data } = error;
  if (kind === 'server' && code !== null) {
    return new ClientError(FILE_ERROR_KINDS.get(code) ?? 'server', message, { data, cause: error, code });
  }
  if (kind === 'disconnected') return new ClientError('brokenPipe', message, { cause: error });
  return error;
}

const FILE_ERROR_KINDS: ReadonlyMap<number, ClientErrorKind> = new Map<number, ClientErrorKind>([
  [RpcErrorCode.notFound, 'notFound'],
  [RpcErrorCode.invalidRequest, 'invalidInput'],
]);

const MAY_HAVE_HAPPENED = 'the operation may have taken effect; check before you repeat it';

function refused(error: RpcError, method: string): ClientError {
  const { code, data, message } = error;
  if (code === RpcErrorCode.forbidden) {
    return new ClientError('permissionDenied', message, {
      code,
      data,
      cause: error,
      hint: 'use a token that allows it',
    });
  }
  if (code === RpcErrorCode.processDriven)
    return new ClientError('conflict', message, { code, data, cause: error });
  if (code !== RpcErrorCode.methodNotFound) {
    const retryable = code === RpcErrorCode.limitExceeded;
    return new ClientError('server', message, { code, data, cause: error, retryable });
  }
  return new ClientError('unsupported', message, {
    code,
    data,
    cause: error,
    hint: `the server does not implement \`${method}\`; update it, or check the address`,
  });
}
