import { MAX_TRACESTATE_CHARS } from './limits.ts';

/** The position of an operation in a distributed trace, in the format of the W3C Trace Context recommendation. */
export interface TraceContext {
  readonly traceparent: string | null;
  readonly tracestate: string | null;
}

/** The headers that propagate a trace to another server; none without a valid trace. */
export function traceHeaders(trace: TraceContext | null): Record<string, string> {
  if (trace === null || parseTraceparent(trace.traceparent) === null) return {};
  const state = usableState(trace.tracestate);
  return { traceparent: trace.traceparent!, ...(state !== null && { tracestate: state }) };
}

/** The variables that propagate a trace to a program. */
export function traceEnvironment(trace: TraceContext | null): Record<string, string> {
  const { traceparent, tracestate } = traceHeaders(trace);
  if (traceparent === undefined) return {};
  return { TRACEPARENT: traceparent, ...(tracestate !== undefined && { TRACESTATE: tracestate }) };
}

/** The parts of a `traceparent`. */
interface Traceparent {
  readonly traceId: string;
  readonly spanId: string;
  readonly flags: number;
}

/** Null for an invalid text. Versions after 00 may append fields. */
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

/** The state if it can be sent in a header; otherwise null. */
export function usableState(tracestate: string | null): string | null {
  if (tracestate === null || tracestate.length > MAX_TRACESTATE_CHARS) return null;
  return /^[\x20-\x7e]+$/.test(tracestate) ? tracestate : null;
}

/** Ids of only zeros and the version ff are invalid. */
const TRACEPARENT =
  /^(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-([0-9a-f]{2})(-[\x21-\x7e]{0,200})?$/;
