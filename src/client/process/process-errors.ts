import { printable, RpcError, RpcErrorCode } from '../../protocol/errors.ts';
import type { ExecProcess } from '../backend.ts';
import { ClientError, messageWithoutHint } from '../errors.ts';

/** What a process is known by. */
type Named = Pick<ExecProcess, 'program' | 'name' | 'ref'>;

/** How errors name a process: by its program, and by the name or the reference with which people find it. */
export function shownProcess({ program, name, ref }: Named): string {
  const id = name ?? ref;
  if (program === null) return id === null ? 'the process' : `process ${id}`;
  return id === null ? printable(program) : `${printable(program)} (process ${id})`;
}

/** The same error, with the process as people know it. Servers name it by the id that the client has made up. */
export function namingProcess(error: unknown, process: Named & Pick<ExecProcess, 'processId'>): unknown {
  const { processId } = process;
  if (!(error instanceof ClientError) || error.code === null || !error.message.includes(processId))
    return error;
  const shown = shownProcess(process);
  const message = messageWithoutHint(error)
    .replaceAll(`process id ${processId}`, `process: ${shown}`)
    .replaceAll(`process ${processId}`, shown);
  return new ClientError(error.kind, message, {
    code: error.code,
    data: error.data,
    hint: error.hint ?? undefined,
    retryable: error.retryable,
    cause: error,
  });
}

/** The caller has detached from the process. */
export function hasDetached(process: Named): ClientError {
  return new ClientError('closed', `the client has detached from ${shownProcess(process)}`, {
    hint: 'attach again with `process.ref`',
  });
}

/** The process may keep running, but its events can no longer be read. */
export function cannotFollow(process: Named, error: unknown): ClientError {
  const message = error instanceof Error ? error.message : String(error);
  const isGone =
    (error instanceof RpcError && error.code === RpcErrorCode.notFound) ||
    (error instanceof ClientError && error.kind === 'notFound');
  return new ClientError(
    isGone ? 'notFound' : 'protocol',
    `${shownProcess(process)} can no longer be followed: ${message}`,
    { cause: error },
  );
}

/** The server lacks what the call needs. */
export function unsupported(what: string, hint: string): ClientError {
  return new ClientError('unsupported', `the server cannot ${what}`, { hint });
}

/** A write to a process that was started without stdin. */
export function noStdin(process: Named): ClientError {
  return new ClientError('invalidInput', `${shownProcess(process)} has no stdin to write to`, {
    hint: 'start it with `pipeStdin: true`, with `input` or on a terminal',
  });
}

/** A write that the server did not accept. */
export function notWritten(process: Pick<ExecProcess, 'state'> & Named, status: string): ClientError {
  const cannot = `cannot write to ${shownProcess(process)}`;
  const { exitCode } = process.state;
  if (status === 'starting')
    return new ClientError('server', `${cannot}: it is still starting`, {
      hint: 'try again',
      retryable: true,
    });
  if (exitCode !== null)
    return new ClientError('stdinClosed', `${cannot}: it has exited with code ${exitCode}`);
  if (status === 'unknownProcess')
    return new ClientError('notFound', `${cannot}: the server no longer has the process`);
  return new ClientError('stdinClosed', `${cannot}: its stdin is closed`, {
    hint: '`closeStdin` was called, or the process was terminated',
  });
}
