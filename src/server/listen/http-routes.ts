import type { IncomingMessage } from 'node:http';
import { printable } from '../../protocol/errors.ts';

/** A refusal or a small answer. */
export interface HttpAnswer {
  readonly status: number;
  readonly body: string;
  readonly headers: Readonly<Record<string, string>>;
}

/** What the listener knows when a request arrives. */
export interface ListenerState {
  readonly draining: boolean;
  /** The limit that keeps another connection out, as a sentence; null when there is room. */
  readonly obstacle: string | null;
}

/**
 * The answer to a plain request, or to an upgrade that must not go through; null lets an upgrade pass. A browser page always
 * sends Origin and never has business here, so that is checked before anything else.
 */
export function answerHttp(
  request: IncomingMessage,
  isUpgrade: boolean,
  state: ListenerState,
): HttpAnswer | null {
  if (request.headers.origin !== undefined) return answer(403);
  const path = pathOf(request);
  if (path === '/readyz') return probe(request, state.draining ? 503 : 200);
  if (path === '/healthz') return probe(request, 200);
  if (path !== '/') return answer(404);
  if (request.method !== 'GET')
    return answer(405, 'a websocket handshake is a GET request\n', { allow: 'GET' });
  if (!isUpgrade) return answer(400, 'this is a websocket endpoint: send an upgrade request\n');
  if (state.draining) return unavailable('the server is shutting down');
  if (state.obstacle !== null) return unavailable(state.obstacle);
  return null;
}

/** What is wrong with the headers of an upgrade, before anybody asks who sent it; null when nothing is. */
export function handshakeProblem({ headers }: IncomingMessage): HttpAnswer | null {
  if (headers['sec-websocket-version'] !== '13') {
    return answer(400, "`Sec-WebSocket-Version` header did not include '13'");
  }
  return headers['sec-websocket-key'] === undefined
    ? answer(400, '`Sec-WebSocket-Key` header missing')
    : null;
}

/** Says that the server does not go by this name. */
export function misdirected(host: string): HttpAnswer {
  return answer(
    421,
    `this server does not answer to the name ${printable(host)}; --allowed-host adds names\n`,
  );
}

/** Says why a token was not accepted. */
export function unauthorized(reason: string): HttpAnswer {
  return answer(401, reason, { 'www-authenticate': 'Bearer' });
}

/** Says what a token is not for. */
export function forbidden(reason: string): HttpAnswer {
  return answer(403, reason);
}

/** Says that there is no place now. */
export function unavailable(reason: string): HttpAnswer {
  return answer(503, `${reason}\n`);
}

/** The answer as bytes, for a socket that HTTP has let go of. */
export function encodeAnswer({ status, body, headers }: HttpAnswer, reasonPhrase: string): string {
  const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}\r\n`);
  return `HTTP/1.1 ${status} ${reasonPhrase}\r\n${lines.join('')}connection: close\r\n\r\n${body}`;
}

function probe(request: IncomingMessage, status: number): HttpAnswer {
  if (request.method === 'GET' || request.method === 'HEAD') return answer(status);
  return answer(405, '', { allow: 'GET,HEAD' });
}

/** What is asked for, without the query. */
export function pathOf({ url = '/' }: IncomingMessage): string {
  return TARGET.exec(url)?.[2] || '/';
}

/** Whom it is asked of. */
export function hostOf({ url = '/', headers }: IncomingMessage): string | undefined {
  return TARGET.exec(url)?.[1] ?? headers.host;
}

/** HTTP allows to name the server in front of the path, as proxies do; the Host header does not count then. */
const TARGET = /^(?:https?:\/\/([^/?]*))?([^?]*)/i;

export function answer(status: number, body = '', headers: Record<string, string> = {}): HttpAnswer {
  const type = body === '' ? {} : { 'content-type': 'text/plain; charset=utf-8' };
  return {
    status,
    body,
    headers: { ...headers, ...type, 'content-length': String(Buffer.byteLength(body)) },
  };
}
