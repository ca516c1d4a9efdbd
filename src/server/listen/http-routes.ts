import type { IncomingMessage } from 'node:http';
import { type HttpResponse, textResponse } from '../../listener/http-response.ts';
import { printable } from '../../protocol/errors.ts';
import type { Gate, Refused } from '../auth/gate.ts';
import type { Principal } from '../auth/principal.ts';
import type { ServerMetrics } from '../records/server-metrics.ts';

/** The state of the listener when a request arrives. */
export interface ListenerState {
  /** Whether new clients are wanted. A server that drains still accepts those that resume their sessions. */
  readonly ready: boolean;
  readonly closing: boolean;
  /** The limit that forbids another connection, as an error text; null when there is none. */
  readonly limitReached: string | null;
}

/**
 * The response to a plain request or to an upgrade that is refused; null accepts the upgrade. Checks Origin first: browsers always
 * send it, and web pages must not use this server.
 */
export function answerHttp(
  request: IncomingMessage,
  isUpgrade: boolean,
  state: ListenerState,
): HttpResponse | null {
  if (request.headers.origin !== undefined) return textResponse(403);
  const path = pathOf(request);
  if (path === '/readyz') return probe(request, state.ready ? 200 : 503);
  if (path === '/healthz') return probe(request, 200);
  if (path !== '/') return textResponse(404);
  if (request.method !== 'GET')
    return textResponse(405, 'a websocket handshake is a GET request\n', { allow: 'GET' });
  if (!isUpgrade) return textResponse(400, 'this is a websocket endpoint: send an upgrade request\n');
  if (state.closing) return unavailable('the server is shutting down');
  if (state.limitReached !== null) return unavailable(state.limitReached);
  return null;
}

/** The request's Host is not a name of this server. */
export function misdirected(host: string): HttpResponse {
  return textResponse(
    421,
    `this server does not answer to the name ${printable(host)}; --allowed-host adds names\n`,
  );
}

/** The token was not accepted. */
export function unauthorized(reason: string): HttpResponse {
  return textResponse(401, reason, { 'www-authenticate': 'Bearer' });
}

/** The token is valid, but not for this. */
export function forbidden(reason: string): HttpResponse {
  return textResponse(403, reason);
}

/** The server cannot take the connection now. */
export function unavailable(reason: string): HttpResponse {
  return textResponse(503, `${reason}\n`);
}

function probe(request: IncomingMessage, status: number): HttpResponse {
  if (request.method === 'GET' || request.method === 'HEAD') return textResponse(status);
  return textResponse(405, '', { allow: 'GET,HEAD' });
}

/** The path of the request, without the query. */
export function pathOf({ url = '/' }: IncomingMessage): string {
  return TARGET.exec(url)?.[2] || '/';
}

/** The host that the request is for. */
export function hostOf({ url = '/', headers }: IncomingMessage): string | undefined {
  return TARGET.exec(url)?.[1] ?? headers.host;
}

/** HTTP allows an absolute URL as the target, which proxies use. Its host overrides the Host header (RFC 9112, section 3.2.2). */
const TARGET = /^(?:https?:\/\/([^/?]*))?([^?]*)/i;

/** Whether the request is for `/metrics`. */
export function asksForMetrics(request: IncomingMessage): boolean {
  return pathOf(request) === '/metrics';
}

/** Responses to scrapers that are refused. Guesses are delayed and recorded like those on a websocket. */
interface MetricsRefusals {
  unauthorized(refused: Refused): Promise<HttpResponse>;
  forbidden(reason: string, principal: Principal): HttpResponse;
}

/**
 * Serves the metrics. Where clients need a token, a scraper needs one with the scope `metrics` or without scopes. The metrics cover all
 * clients, so a token with other scopes does not give access to them.
 */
export async function answerMetrics(
  request: IncomingMessage,
  metrics: ServerMetrics,
  gate: Gate | null,
  refusals: MetricsRefusals,
): Promise<HttpResponse> {
  if (request.headers.origin !== undefined) return textResponse(403);
  if (request.method !== 'GET' && request.method !== 'HEAD')
    return textResponse(405, '', { allow: 'GET,HEAD' });
  const admission = await gate?.(request.headers.authorization, request.socket.remoteAddress ?? null);
  if (admission !== undefined) {
    if ('refusal' in admission) return await refusals.unauthorized(admission);
    const { principal } = admission;
    if (!principal.access.metrics) return refusals.forbidden(OTHER_SCOPE, principal);
  }
  const body = metrics.scrape();
  const headers = { 'content-type': metrics.contentType, 'content-length': String(Buffer.byteLength(body)) };
  return { status: 200, body, headers };
}

const OTHER_SCOPE = 'the token does not allow /metrics: it needs the scope `metrics`';
