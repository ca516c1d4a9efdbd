import { ClientError } from '../errors.ts';

/** A server's address: what to connect to, and how to call it without showing what may be secret. */
export interface ServerUrl {
  readonly href: string;
  readonly name: string;
}

/** Throws ClientError when it is no websocket address. */
export function parseServerUrl(text: string): ServerUrl {
  // A socket in the file system, whose path is taken as it is written.
  if (text.startsWith('unix:///')) return { href: text, name: text };
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || (url.protocol !== 'ws:' && url.protocol !== 'wss:') || url.hash !== '') {
    throw new ClientError('config', 'the address of the server is not a websocket URL', {
      hint: 'write it as ws://HOST:PORT, wss://HOST:PORT or unix:///PATH',
    });
  }
  return { href: url.href, name: `${url.protocol}//${url.host}${url.pathname === '/' ? '' : url.pathname}` };
}

/** The server was not reached; it may be there later. */
export function unreachable(name: string, cause: unknown): ClientError {
  // Several addresses of one host fail with one error that has no text of its own.
  const failure = cause instanceof AggregateError ? cause.errors[0] : cause;
  const message = failure instanceof Error ? failure.message : String(failure);
  return new ClientError('connectFailed', `${name} cannot be reached: ${message}`, {
    cause,
    hint: 'check that the server runs and that the address is right',
    retryable: true,
  });
}

/** The server was reached but answered with an HTTP status. Only who may not enter need not come back. */
export function refusedUpgrade(
  name: string,
  status: number,
  details: { readonly hasToken: boolean; readonly cause: unknown },
): ClientError {
  const final = status === 401 || status === 403;
  return new ClientError('connectFailed', `${name} refused the connection with HTTP ${status}`, {
    cause: details.cause,
    data: { status },
    retryable: !final,
    hint: hintFor(status, details.hasToken),
  });
}

function hintFor(status: number, hasToken: boolean): string {
  if (status === 401)
    return hasToken ? 'the token is wrong or no longer valid' : 'pass a token as `authToken`';
  if (status === 403) return 'the server does not allow this client to connect';
  if (status === 503) return 'the server has too many connections or is shutting down; try again later';
  return 'check that the address is one of an exec-server';
}
