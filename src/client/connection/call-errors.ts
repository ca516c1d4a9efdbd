import { RpcError, RpcErrorCode } from '../../protocol/errors.ts';
import { TooManyCallsError } from '../../rpc/outgoing-calls.ts';
import { ClientError, type ClientErrorKind, messageWithoutHint } from '../errors.ts';
import { serverErrorKind } from './error-kinds.ts';
import type { LinkEnd } from './link.ts';

/** Converts what a call threw into a ClientError. */
export function asClientError(error: unknown, method: string): ClientError {
  if (error instanceof ClientError) return error;
  if (error instanceof RpcError) return refused(error);
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

/** The same error with the name of an option, where the server names the member of its params. */
export function namingOptions(error: ClientError): ClientError {
  const found = /^params\.([\w.]+): /.exec(error.message);
  if (error.code !== RpcErrorCode.invalidParams || found === null) return error;
  const { kind, code, data, cause, hint, message } = error;
  const rest = messageWithoutHint({ hint, message } as ClientError).slice(found[0].length);
  return new ClientError(kind, `\`${found[1]}\`: ${rest}`, { code, data, cause, hint: hint ?? undefined });
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

/** Converts what a call threw to the errors of file operations, which have one kind for a lost connection and a lost answer. */
export function asFileError(error: unknown): unknown {
  if (!(error instanceof ClientError) || error.kind !== 'disconnected') return error;
  return new ClientError('brokenPipe', error.message, { cause: error });
}

const MAY_HAVE_HAPPENED = 'the operation may have taken effect; check before you repeat it';

function refused(error: RpcError): ClientError {
  const { code, data, message } = error;
  const kind = serverErrorKind(code, message);
  const [problem, fix] = divided(message, kind);
  return new ClientError(kind, problem, {
    code,
    data,
    cause: error,
    hint: fix ?? hintFor(code),
    retryable: kind === 'overloaded' || kind === 'connectFailed',
  });
}

function hintFor(code: number): string | undefined {
  if (code === RpcErrorCode.forbidden) return 'use a token that allows it';
  if (code === RpcErrorCode.methodNotFound) return 'update the server, or check the address';
  return undefined;
}

/** Divides a message such as `the name is in use; choose another` into the problem and the fix. */
function divided(message: string, kind: ClientErrorKind): readonly [string, string | undefined] {
  const at = kind === 'conflict' ? message.indexOf('; ') : -1;
  return at === -1 ? [message, undefined] : [message.slice(0, at), message.slice(at + 2)];
}
