import { printable } from '../../protocol/errors.ts';
import { ClientError } from '../errors.ts';

/** The address of a server. `name` is for messages: it leaves out credentials and the query. */
interface ServerUrl {
  readonly href: string;
  readonly name: string;
}

/** Parses the address of a server. Throws ClientError when it is not a websocket or unix socket URL. */
export function parseServerUrl(text: string): ServerUrl {
  // A unix socket. Its path is not percent-decoded.
  if (text.startsWith('unix:///')) return { href: text, name: text };
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url === null || (url.protocol !== 'ws:' && url.protocol !== 'wss:') || url.hash !== '') {
    const isHttp = url?.protocol === 'http:' || url?.protocol === 'https:';
    const scheme = url?.protocol === 'http:' ? 'ws://' : 'wss://';
    throw new ClientError('config', 'the server address is not a websocket URL', {
      hint: isHttp
        ? `write ${scheme} instead of ${url.protocol}//`
        : 'write it as ws://HOST:PORT, wss://HOST:PORT or unix:///PATH',
    });
  }
  return { href: url.href, name: `${url.protocol}//${url.host}${url.pathname === '/' ? '' : url.pathname}` };
}

/** The server could not be reached. A later attempt may succeed. */
export function unreachable(name: string, cause: unknown): ClientError {
  // When several addresses of a host fail, Node throws an AggregateError without a message.
  const failure = cause instanceof AggregateError ? cause.errors[0] : cause;
  const message = failure instanceof Error ? failure.message : String(failure);
  return new ClientError('connectFailed', `cannot reach ${name}: ${message}`, {
    cause,
    hint: unreachableHint(failure),
    retryable: true,
  });
}

/** The server answered the upgrade with an HTTP status. Only 401 and 403 are final. */
export function refusedUpgrade(
  name: string,
  { status, location }: { readonly status: number; readonly location: string | null },
  details: { readonly hasToken: boolean; readonly cause: unknown },
): ClientError {
  return new ClientError('connectFailed', `${name} ${refusal(status, location)}`, {
    cause: details.cause,
    data: { status },
    retryable: status !== 401 && status !== 403,
    hint: hintFor(status, details.hasToken),
  });
}

function refusal(status: number, location: string | null): string {
  if (status < 300) return `answered with a web page (HTTP ${status}) instead of a websocket`;
  if (status >= 400) return `refused the connection with HTTP ${status}`;
  return `redirects to ${printable(location ?? 'another address')} (HTTP ${status})`;
}

function hintFor(status: number, hasToken: boolean): string {
  if (status === 401) return hasToken ? 'the token is invalid or has expired' : 'pass a token as `authToken`';
  if (status === 403) return 'the server does not allow this client to connect';
  if (status === 404) return 'check the path of the address: a server listens on /';
  if (status === 503) return 'the server has too many connections or is shutting down; try again later';
  if (status >= 300 && status < 400) return 'connect to that address, with ws:// or wss://';
  return 'check that the address is an exec-server';
}

function unreachableHint(failure: unknown): string {
  const code = (failure as { readonly code?: unknown } | null)?.code;
  if (code === 'ENOTFOUND' || code === 'EAI_AGAIN') return 'check the host name and the network';
  if (code === 'EACCES') return 'the user of this program may not access the socket';
  return 'check the address and that the server is running';
}
