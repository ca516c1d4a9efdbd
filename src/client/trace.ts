import { traceHeaders } from '../observability/trace-context.ts';

/** The place of the caller's work in a distributed trace, in the texts of the W3C's recommendation. */
export interface TraceContext {
  readonly traceparent: string;
  readonly tracestate?: string | null;
}

/** Says which trace a call is part of; null or undefined for none. Asked in the context of whoever calls. */
export type TraceSource = () => TraceContext | null | undefined;

/** What is sent of a trace. One that is not well formed is left out: a server that cannot read a request ends the connection. */
export function sendableTrace(
  source: TraceSource | undefined,
): { readonly traceparent: string; readonly tracestate: string | null } | null {
  const given = source?.();
  if (given == null) return null;
  const { traceparent, tracestate } = traceHeaders({ ...given, tracestate: given.tracestate ?? null });
  return traceparent === undefined ? null : { traceparent, tracestate: tracestate ?? null };
}
