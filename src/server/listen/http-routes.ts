import type { IncomingMessage } from 'node:http';
import { type HttpResponse, textResponse } from '../../listener/http-response.ts';
import { printable } from '../../protocol/errors.ts';

/** What the listener knows when a request arrives. */
export interface ListenerState {
  readonly draining: boolean;
  /** The limit that forbids another connection, as a sentence; null when there is none. */
  readonly limitReached: string | null;
}

/**
 * The answer to a plain request, or to an upgrade that must not go through; null lets an upgrade pass. A browser page always
 * sends Origin and never has business here, so that is checked before anything else.
 */
export function answerHttp(
  request: IncomingMessage,
  isUpgrade: boolean,
  state: ListenerState,
): HttpResponse | null {
  if (request.headers.origin !== undefined) return textResponse(403);
  const path = pathOf(request);
  if (path === '/readyz') return probe(request, state.draining ? 503 : 200);
  if (path === '/healthz') return probe(request, 200);
  if (path !== '/') return textResponse(404);
  if (request.method !== 'GET')
    return textResponse(405, 'a websocket handshake is a GET request\n', { allow: 'GET' });
  if (!isUpgrade) return textResponse(400, 'this is a websocket endpoint: send an upgrade request\n');
  if (state.draining) return unavailable('the server is shutting down');
  if (state.limitReached !== null) return unavailable(state.limitReached);
  return null;
}

/** Says that the server does not go by this name. */
export function misdirected(host: string): HttpResponse {
  return textResponse(
    421,
    `this server does not answer to the name ${printable(host)}; --allowed-host adds names\n`,
  );
}

/** Says why a token was not accepted. */
export function unauthorized(reason: string): HttpResponse {
  return textResponse(401, reason, { 'www-authenticate': 'Bearer' });
}

/** Says what a token is not for. */
export function forbidden(reason: string): HttpResponse {
  return textResponse(403, reason);
}

/** Says that there is no place now. */
export function unavailable(reason: string): HttpResponse {
  return textResponse(503, `${reason}\n`);
}

function probe(request: IncomingMessage, status: number): HttpResponse {
  if (request.method === 'GET' || request.method === 'HEAD') return textResponse(status);
  return textResponse(405, '', { allow: 'GET,HEAD' });
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
