import { NetworkError } from '../../network/errors.ts';
import type { HttpResponse } from '../../network/http/http-client.ts';
import type { HttpRequest } from '../../network/http/request.ts';
import { type TraceContext, traceHeaders } from '../../observability/trace-context.ts';
import type { RequestSpan } from '../../observability/tracing.ts';
import type { ParamsOf } from '../../protocol/registry.ts';
import { Base64Result } from '../../rpc/results.ts';
import type { Handlers, RequestContext } from '../../rpc/router.ts';
import { bytesParam } from './params.ts';
import type { HandlerServices } from './services.ts';

type HttpMethod = Extract<keyof Handlers, `http/${string}`>;
type HttpParams = ParamsOf<'http/request'>;

/** The `http/*` methods. A request gives up its slot while it waits for the web server. */
export function httpHandlers(services: HandlerServices): Pick<Handlers, HttpMethod> {
  const { http } = services;
  return {
    'http/request': async (params, context) => {
      const { requestId, streamResponse, windowBytes } = params;
      if (!streamResponse) {
        const whole = await carryOut(services, params, context, (request) => http.fetch(requestId, request));
        return responseResult(whole, whole.body, { release: whole.release });
      }
      const streamed = await carryOut(services, params, context, (request) =>
        http.stream(requestId, request, windowBytes ?? null),
      );
      // The client must have the response before the first `http/request/bodyDelta`.
      return responseResult(streamed, NO_BODY, { afterSent: streamed.startBody });
    },

    'http/cancel': ({ requestId }) => ({ cancelled: http.cancel(requestId) }),

    'http/consumed': ({ requestId, bytes }) => {
      http.consumed(requestId, bytes);
      return {};
    },
  };
}

const NO_BODY = Buffer.alloc(0);
const NETWORK_FORBIDDEN = 'this server does not allow requests to the network (--min-sandbox)';

/** Sends a request to a web server, with its span and its audit record. */
function carryOut<T extends { readonly status: number }>(
  { records, sandboxEnforcer }: HandlerServices,
  params: HttpParams,
  { bulk, park, trace }: RequestContext,
  send: (request: HttpRequest) => Promise<T>,
): Promise<T> {
  const body = bytesParam({ bodyBase64: params.bodyBase64 ?? '' }, 'bodyBase64', bulk);
  return records.httpRequest(params, async () => {
    if (sandboxEnforcer.networkForbidden) throw new NetworkError('refused', NETWORK_FORBIDDEN);
    const span = records.tracedHttp(params.method, trace);
    const request = requestOf(params, body, span?.context ?? null);
    park();
    return await traced(span, send(request));
  });
}

function requestOf(params: HttpParams, body: Buffer, trace: TraceContext | null): HttpRequest {
  const { method, url, redirectPolicy: redirect, timeoutMs } = params;
  const headers = trace === null ? params.headers : withTrace(params.headers, trace);
  return { method, url, headers, body, redirect, timeoutMs: timeoutMs ?? null };
}

type Headers = HttpParams['headers'];

/** Adds the trace headers, unless the client sends its own. */
function withTrace(headers: Headers, trace: TraceContext): Headers {
  if (headers.some(({ name }) => name.toLowerCase() === 'traceparent')) return headers;
  return [...headers, ...Object.entries(traceHeaders(trace)).map(([name, value]) => ({ name, value }))];
}

/** Ends the span when the web server has answered or failed. A streamed body follows later. */
async function traced<T>(span: RequestSpan | undefined, response: Promise<T>): Promise<T> {
  try {
    const received = await response;
    span?.end('success');
    return received;
  } catch (error) {
    span?.end('error');
    throw error;
  }
}

function responseResult(
  { status, fields }: Pick<HttpResponse, 'status' | 'fields'>,
  body: Buffer,
  hooks: Base64Result['hooks'],
): Base64Result {
  const headers = JSON.stringify(fields.map(({ name, value }) => ({ name, value })));
  return new Base64Result(`{"status":${status},"headers":${headers},"bodyBase64":"`, body, '"}', hooks);
}
