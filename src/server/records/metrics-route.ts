import type { IncomingMessage } from 'node:http';
import type { Gate } from '../auth/gate.ts';
import { answer, type HttpAnswer, pathOf } from '../listen/http-routes.ts';
import type { ServerMetrics } from './server-metrics.ts';

/** Whether a request is about metrics. */
export function asksForMetrics(request: IncomingMessage): boolean {
  return pathOf(request) === '/metrics';
}

/**
 * The metrics for whoever may connect: where clients need a token, a scraper needs one too, of any scope. `refuse` makes the answer
 * to a wrong one: whoever guesses here is slowed and recorded as at the websocket.
 */
export async function answerMetrics(
  request: IncomingMessage,
  metrics: ServerMetrics,
  gate: Gate | null,
  refuse: (reason: string, delayMs: number) => Promise<HttpAnswer>,
): Promise<HttpAnswer> {
  if (request.headers.origin !== undefined) return answer(403);
  if (request.method !== 'GET' && request.method !== 'HEAD') return answer(405, '', { allow: 'GET,HEAD' });
  const admission = await gate?.(request.headers.authorization, request.socket.remoteAddress ?? null);
  if (admission !== undefined && 'refusal' in admission) {
    return await refuse(admission.refusal, admission.delayMs);
  }
  const body = metrics.text();
  const headers = { 'content-type': metrics.contentType, 'content-length': String(Buffer.byteLength(body)) };
  return { status: 200, body, headers };
}
