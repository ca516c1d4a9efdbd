import { RpcError, RpcErrorCode } from '../../protocol/errors.ts';
import { TooManyCallsError } from '../../rpc/connection.ts';
import { ClientError } from '../errors.ts';
import type { LinkEnd } from './link.ts';

/** What a call threw, as the error that this library promises. */
export function asClientError(error: unknown, method: string): ClientError {
  if (error instanceof ClientError) return error;
  if (error instanceof RpcError) return refused(error, method);
  if (error instanceof TooManyCallsError) {
    return new ClientError('overloaded', error.message, {
      cause: error,
      hint: 'wait for some of them before sending more',
      retryable: true,
    });
  }
  const message = error instanceof Error ? error.message : String(error);
  return new ClientError('invalidInput', `\`${method}\` could not be sent: ${message}`, { cause: error });
}

/** A call that was under way when the connection ended. */
export function lostCall(method: string, end: LinkEnd): ClientError {
  return new ClientError(
    'brokenPipe',
    `the connection was lost before \`${method}\` was answered: ${end.reason}`,
    { hint: MAY_HAVE_HAPPENED },
  );
}

/** A call that was lost once, and could not be sent again: what it failed with the second time says nothing of the first. */
export function lostRetry(method: string, failure: ClientError): ClientError {
  return new ClientError(
    'brokenPipe',
    `the answer to \`${method}\` was lost, and it could not be repeated: ${failure.message}`,
    { cause: failure, hint: MAY_HAVE_HAPPENED },
  );
}

/** A call during which the server spoilt every connection. */
export function protocolFailure(method: string, end: LinkEnd): ClientError {
  return new ClientError('protocol', `\`${method}\` could not be answered: ${end.reason}`, {
    hint: 'check that nothing between this client and the server alters messages',
    retryable: true,
  });
}

const MAY_HAVE_HAPPENED = 'the operation may have happened; look before you repeat it';

function refused(error: RpcError, method: string): ClientError {
  const { code, data, message } = error;
  if (code !== RpcErrorCode.methodNotFound) {
    const retryable = code === RpcErrorCode.limitExceeded;
    return new ClientError('server', message, { code, data, cause: error, retryable });
  }
  return new ClientError('unsupported', message, {
    code,
    data,
    cause: error,
    hint: `the server is too old for \`${method}\`, or another one`,
  });
}
