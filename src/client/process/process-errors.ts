import { RpcError, RpcErrorCode } from '../../protocol/errors.ts';
import { ClientError } from '../errors.ts';

/** The process may keep running, but its events can no longer be read. */
export function cannotFollow(processId: string, error: unknown): ClientError {
  const message = error instanceof Error ? error.message : String(error);
  const isGone = error instanceof RpcError && error.code === RpcErrorCode.notFound;
  return new ClientError(
    isGone ? 'notFound' : 'protocol',
    `process ${processId} can no longer be followed: ${message}`,
    { cause: error },
  );
}

/** The server lacks what the call needs. */
export function unsupported(what: string, hint: string): ClientError {
  return new ClientError('unsupported', `the server cannot ${what}`, { hint });
}

/** A write to a process that was started without stdin. */
export function noStdin(processId: string): ClientError {
  return new ClientError('invalidInput', `process ${processId} has no stdin to write to`, {
    hint: 'start it with `pipeStdin: true`, with `input` or on a terminal',
  });
}
