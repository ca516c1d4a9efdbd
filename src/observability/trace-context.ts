import { MAX_TRACESTATE_CHARS } from './limits.ts';

/** The place of a piece of work in a distributed trace, in the texts of the W3C's recommendation. */
export interface TraceContext {
  readonly traceparent: string | null;
  readonly tracestate: string | null;
}

/** The headers that carry a trace on to another server; none when there is no trace, or one that is not well formed. */
export function traceHeaders(trace: TraceContext | null): Record<string, string> {
  if (trace === null || parseTraceparent(trace.traceparent) === null) return {};
  const state = usableState(trace.tracestate);
  return { traceparent: trace.traceparent!, ...(state !== null && { tracestate: state }) };
}

/** The variables that carry a trace on to a program. */
export function traceEnvironment(trace: TraceContext | null): Record<string, string> {
  const { traceparent, tracestate } = traceHeaders(trace);
  if (traceparent === undefined) return {};
  return { TRACEPARENT: traceparent, ...(tracestate !== undefined && { TRACESTATE: tracestate }) };
}

/** The parts of a `traceparent`. */
export interface Traceparent {
  readonly traceId: string;
  readonly spanId: string;
  readonly flags: number;
}

/** Null for a text that is none. A version to come may append to it. */
export function parseTraceparent(text: string | null): Traceparent | null {
  const found = TRACEPARENT.exec(text ?? '');
  if (found === null) return null;
  const [, version, traceId, spanId, flags, more] = found;
  if (version === '00' && more !== undefined) return null;
  return { traceId: traceId!, spanId: spanId!, flags: Number.parseInt(flags!, 16) };
}

export function formatTraceparent({ traceId, spanId, flags }: Traceparent): string {
  return `00-${traceId}-${spanId}-${flags.toString(16).padStart(2, '0')}`;
}

/** A state that can stand in a header; null when there is none. */
export function usableState(tracestate: string | null): string | null {
  if (tracestate === null || tracestate.length > MAX_TRACESTATE_CHARS) return null;
  return /^[\x20-\x7e]+$/.test(tracestate) ? tracestate : null;
}

/** Ids of zeros only stand for none, and there is no version ff. */
const TRACEPARENT =
  /^(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-[\x21-\x7e]{0,200})?$/;
