import { context, createTraceState, type Span, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';
import { formatTraceparent, parseTraceparent, type TraceContext, usableState } from './trace-context.ts';

/** How a piece of work ended. */
type SpanResult = 'success' | 'error' | 'disconnected';

/** The span of one request. */
export interface RequestSpan {
  /** What to carry on to whatever the request starts. */
  readonly context: TraceContext | null;
  /** Runs work as part of the span, so that libraries that trace find it. */
  run<T>(work: () => T): T;
  end(result: SpanResult): void;
}

/**
 * Spans through the OpenTelemetry API. They go where the process's SDK sends them; without one the trace of a request is only
 * carried on. It is loaded where tracing is configured and costs nothing elsewhere.
 */
export class RequestTracer {
  readonly #tracer = trace.getTracer('exec-server');

  /** Begins the span of a request, as the child of what the client says about its own. */
  request(method: string, remote: TraceContext | null): RequestSpan {
    return this.#begin(
      'codex.exec_server.request',
      SpanKind.SERVER,
      { 'rpc.system': 'jsonrpc', 'rpc.method': method },
      remote,
    );
  }

  /** Begins the span of a request to a web server. */
  httpRequest(method: string, parent: TraceContext | null): RequestSpan {
    return this.#begin(
      'codex.exec_server.http_request',
      SpanKind.CLIENT,
      { 'http.request.method': method },
      parent,
    );
  }

  #begin(
    name: string,
    kind: SpanKind,
    attributes: Record<string, string>,
    parent: TraceContext | null,
  ): RequestSpan {
    const outer = contextOf(parent);
    const span = this.#tracer.startSpan(name, { kind, attributes }, outer);
    const inner = trace.setSpan(outer, span);
    return {
      context: textOf(span),
      run: (work) => context.with(inner, work),
      end: (result) => {
        span.setAttribute('result', result);
        if (result === 'error') span.setStatus({ code: SpanStatusCode.ERROR });
        span.end();
      },
    };
  }
}

/** A trace that is not well formed begins anew. */
function contextOf(remote: TraceContext | null) {
  const parent = remote && parseTraceparent(remote.traceparent);
  if (parent === null || remote === null) return context.active();
  const { traceId, spanId, flags: traceFlags } = parent;
  const state = usableState(remote.tracestate);
  return trace.setSpanContext(context.active(), {
    traceId,
    spanId,
    traceFlags,
    isRemote: true,
    ...(state !== null && { traceState: createTraceState(state) }),
  });
}

/** Null where there is neither an SDK nor a trace of the client's. */
function textOf(span: Span): TraceContext | null {
  const { traceId, spanId, traceFlags: flags, traceState } = span.spanContext();
  const traceparent = formatTraceparent({ traceId, spanId, flags });
  if (parseTraceparent(traceparent) === null) return null;
  return { traceparent, tracestate: traceState?.serialize() || null };
}
