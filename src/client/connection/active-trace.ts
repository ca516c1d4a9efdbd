import { formatTraceparent } from '../../observability/trace-context.ts';
import type { TraceContext } from './trace.ts';

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
