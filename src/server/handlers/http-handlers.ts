import { NetworkError } from '../../network/errors.ts';
import type { HeaderField } from '../../network/http/header-fields.ts';
import type { HttpRequest } from '../../network/http/request.ts';
import { type TraceContext, traceHeaders } from '../../observability/trace-context.ts';
import type { RequestSpan } from '../../observability/tracing.ts';
import type { ParamsOf } from '../../protocol/registry.ts';
import { Base64Result } from '../../rpc/results.ts';
import type { Handlers } from '../../rpc/router.ts';
import { bytesParam } from './base64-params.ts';
import type { HandlerServices } from './services.ts';

type HttpMethod = Extract<keyof Handlers, `http/${string}`>;

/** The `http/*` methods. A request parks its slot: a server that does not answer delays nobody. */
export function httpHandlers({
  http,
  sandboxEnforcer,
  records,
}: HandlerServices): Pick<Handlers, HttpMethod> {
  return {
    'http/request': async (params, { bulk, park, trace }) => {
      const { requestId, streamResponse, windowBytes, bodyBase64 } = params;
      const body = bytesParam({ bodyBase64: bodyBase64 ?? '' }, 'bodyBase64', bulk);
      const carriedOut = <T extends { readonly status: number }>(
        send: (request: HttpRequest) => Promise<T>,
      ) =>
        records.httpRequest(params, async () => {
          if (sandboxEnforcer.networkForbidden) throw new NetworkError('refused', NETWORK_FORBIDDEN);
          const span = records.tracedHttp(params.method, trace);
          const request = requestOf(params, body, span?.context ?? null);
          park();
          return await tracedBy(span, send(request));
        });
      if (!streamResponse) {
        const {
          status,
          fields,
          body: answer,
          release,
        } = await carriedOut((request) => http.fetch(requestId, request));
        return answerOf(status, fields, answer, release);
      }
      const { status, fields, start } = await carriedOut((request) =>
        http.stream(requestId, request, windowBytes ?? null),
      );
      // Encoding is the last thing that is done before the answer is sent, so that the body always follows it.
      return answerOf(status, fields, NOTHING, () => queueMicrotask(start));
    },

    'http/cancel': ({ requestId }) => ({ cancelled: http.cancel(requestId) }),

    'http/consumed': ({ requestId, bytes }) => {
      http.consumed(requestId, bytes);
      return {};
    },
  };
}

const NOTHING = Buffer.alloc(0);
const NETWORK_FORBIDDEN = 'this server allows nobody to use the network (--min-sandbox)';

function requestOf(params: ParamsOf<'http/request'>, body: Buffer, trace: TraceContext | null): HttpRequest {
  const { method, url, redirectPolicy: redirect, timeoutMs } = params;
  const headers = trace === null ? params.headers : withTrace(params.headers, trace);
  return { method, url, headers, body, redirect, timeoutMs: timeoutMs ?? null };
}

type Headers = ParamsOf<'http/request'>['headers'];

/** What the client says itself about the trace wins. */
function withTrace(headers: Headers, trace: TraceContext): Headers {
  if (headers.some(({ name }) => name.toLowerCase() === 'traceparent')) return headers;
  return [...headers, ...Object.entries(traceHeaders(trace)).map(([name, value]) => ({ name, value }))];
}

/** Ends the span when the server has answered, or has not; a body that is streamed comes later. */
async function tracedBy<T>(span: RequestSpan | undefined, answer: Promise<T>): Promise<T> {
  try {
    const answered = await answer;
    span?.end('success');
    return answered;
  } catch (error) {
    span?.end('error');
    throw error;
  }
}

function answerOf(
  status: number,
  fields: readonly HeaderField[],
  body: Buffer,
  encoded: () => void,
): Base64Result {
  const headers = JSON.stringify(fields.map(({ name, value }) => ({ name, value })));
  return new Base64Result(`{"status":${status},"headers":${headers},"bodyBase64":"`, body, '"}', encoded);
}
