import { context, createTraceState, type Span, SpanKind, SpanStatusCode, trace } from '@opentelemetry/api';
import { formatTraceparent, parseTraceparent, type TraceContext, usableState } from './trace-context.ts';

/** How an operation ended. */
type SpanResult = 'success' | 'error' | 'disconnected';

/** The span of one request. */
export interface RequestSpan {
  /** The context for everything that the request starts. */
  readonly context: TraceContext | null;
  /** Runs work as part of the span, so that other instrumented libraries find it. */
  run<T>(work: () => T): T;
  end(result: SpanResult): void;
}

/**
 * Creates spans through the OpenTelemetry API. The SDK of the process exports them; without an SDK the trace of a request is only
 * propagated. Loaded only when tracing is configured.
 */
export class RequestTracer {
  readonly #tracer = trace.getTracer('exec-server');

  /** Starts the span of a request, as a child of the client's span. */
  request(method: string, remote: TraceContext | null): RequestSpan {
    return this.#begin(
      'codex.exec_server.request',
      SpanKind.SERVER,
      { 'rpc.system': 'jsonrpc', 'rpc.method': method },
      remote,
    );
  }

  /** Starts the span of an HTTP request to a web server. */
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

/** An invalid trace is replaced by a new one. */
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

/** Null without an SDK and without a trace of the client. */
function textOf(span: Span): TraceContext | null {
  const { traceId, spanId, traceFlags: flags, traceState } = span.spanContext();
  const traceparent = formatTraceparent({ traceId, spanId, flags });
  if (parseTraceparent(traceparent) === null) return null;
  return { traceparent, tracestate: traceState?.serialize() || null };
}
