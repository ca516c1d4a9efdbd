import type { IncomingMessage } from 'node:http';
import { type HttpResponse, textResponse } from '../../listener/http-response.ts';
import type { Gate, Refused } from '../auth/gate.ts';
import type { Principal } from '../auth/principal.ts';
import { pathOf } from '../listen/http-routes.ts';
import type { ServerMetrics } from './server-metrics.ts';

/** Whether a request is about metrics. */
export function asksForMetrics(request: IncomingMessage): boolean {
  return pathOf(request) === '/metrics';
}

/** Makes the answers to scrapers that are not let in; whoever guesses here is slowed and recorded as at the websocket. */
export interface MetricsRefusals {
  unauthorized(refused: Refused): Promise<HttpResponse>;
  forbidden(reason: string, principal: Principal): HttpResponse;
}

/**
 * The metrics for whoever may read them: where clients need a token a scraper needs one too, of the scope `metrics` or without any.
 * They tell of what everybody does, which a token that is limited to something else is not for.
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
  const body = metrics.text();
  const headers = { 'content-type': metrics.contentType, 'content-length': String(Buffer.byteLength(body)) };
  return { status: 200, body, headers };
}

const OTHER_SCOPE = 'the token does not allow /metrics: it needs the scope `metrics`';
