import { formatTraceparent, traceHeaders } from '../../observability/trace-context.ts';

/** The caller's position in a distributed trace, as the headers of W3C Trace Context. */
export interface TraceContext {
  readonly traceparent: string;
  readonly tracestate?: string | null;
}

/**
 * Returns the trace that a call belongs to; null or undefined for none. Runs in the async context of the caller.
 */
export type TraceSource = () => TraceContext | null | undefined;

/**
 * Returns the trace to send with a call. A malformed trace is left out, because a server that cannot parse a
 * request ends the connection. A source that throws is ignored: a call does not fail because of its trace.
 */
export function sendableTrace(
  source: TraceSource | undefined,
): { readonly traceparent: string; readonly tracestate: string | null } | null {
  const { traceparent, tracestate } = traceHeaders(readTrace(source));
  return traceparent === undefined ? null : { traceparent, tracestate: tracestate ?? null };
}

function readTrace(source: TraceSource | undefined): Parameters<typeof traceHeaders>[0] {
  try {
    const { traceparent, tracestate } = source?.() ?? {};
    return { traceparent: textOrNull(traceparent), tracestate: textOrNull(tracestate) };
  } catch {
    return null;
  }
}

/** OpenTelemetry's `tracestate` is an object, and callers may be untyped. */
function textOrNull(value: unknown): string | null {
  return typeof value === 'string' ? value : null;
}

/**
 * Returns the trace of the active OpenTelemetry span; null when there is none. Requires an SDK with a context
 * manager. It reads the global that copies of the OpenTelemetry API share, so the client needs no dependency on it.
 */
export function activeTrace(): TraceContext | null {
  const { [API]: api } = globalThis as { readonly [API]?: GlobalApi };
  const active = api?.context?.active().getValue(SPAN)?.spanContext();
  if (active === undefined) return null;
  const { traceId, spanId, traceFlags: flags, traceState } = active;
  return {
    traceparent: formatTraceparent({ traceId, spanId, flags }),
    tracestate: traceState?.serialize() || null,
  };
}

/** The global symbol of version 1 of the OpenTelemetry API, and the context key of the active span. */
const API = Symbol.for('opentelemetry.js.api.1');
const SPAN = Symbol.for('OpenTelemetry Context Key SPAN');

interface GlobalApi {
  readonly context?: { active(): { getValue(key: symbol): ActiveSpan | undefined } };
}

interface ActiveSpan {
  spanContext(): {
    readonly traceId: string;
    readonly spanId: string;
    readonly traceFlags: number;
    readonly traceState?: { serialize(): string };
  };
}
