import { ClientError, messageWithoutHint } from '../errors.ts';
import { asClientError } from './call-errors.ts';
import type { LinkEnd } from './link.ts';

/** The connection ended; a recovery may follow. */
export function lostConnection(end: LinkEnd): ClientError {
  return new ClientError(
    end.protocolError ? 'protocol' : 'disconnected',
    `the connection was lost: ${end.reason}`,
    {
      retryable: true,
    },
  );
}

/** The recovery failed. Prefers the hint of the last attempt, because it is the most specific one. */
export function notRecovered(end: LinkEnd, error: unknown): ClientError {
  const kind = end.protocolError ? 'protocol' : 'disconnected';
  const lost = `the connection was lost: ${end.reason}`;
  const cause = asClientError(error, 'initialize');
  const tried = cause.message.startsWith(lost)
    ? ''
    : ` and could not be restored: ${messageWithoutHint(cause)}`;
  const hint = cause.hint ?? 'connect again; the server ends the processes together with their session';
  return new ClientError(kind, `${lost}${tried}`, { cause, code: cause.code ?? undefined, hint });
}
