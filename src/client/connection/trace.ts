import { formatTraceparent, traceHeaders } from '../../observability/trace-context.ts';

/** The place of the caller's work in a distributed trace, in the texts of the W3C's recommendation. */
export interface TraceContext {
  readonly traceparent: string;
  readonly tracestate?: string | null;
}

/** Says which trace a call is part of; null or undefined for none. Asked in the context of whoever calls. */
export type TraceSource = () => TraceContext | null | undefined;

/**
 * What is sent of a trace. One that is not well formed is left out: a server that cannot read a request ends the connection. So is one
 * that cannot be told: a call is not given up for the sake of its trace.
 */
export function sendableTrace(
  source: TraceSource | undefined,
): { readonly traceparent: string; readonly tracestate: string | null } | null {
  const { traceparent, tracestate } = traceHeaders(tell(source));
  return traceparent === undefined ? null : { traceparent, tracestate: tracestate ?? null };
}

function tell(source: TraceSource | undefined): Parameters<typeof traceHeaders>[0] {
  try {
    const { traceparent, tracestate } = source?.() ?? {};
    return { traceparent: textOrNull(traceparent), tracestate: textOrNull(tracestate) };
  } catch {
    return null;
  }
}

/** OpenTelemetry has objects where a text is meant, and not every caller has its types checked. */
function textOrNull(value: unknown): string | null {
  return typeof value === 'string' ? value : null;
}

/**
 * The trace of the active span of OpenTelemetry; null where there is none. Needs an SDK that keeps track of what is active. It is found
 * the way in which copies of the OpenTelemetry API find each other, so that clients do without a copy of their own.
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

/** Where version 1 of the API keeps what an SDK has registered, and under which key the active span is. */
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
