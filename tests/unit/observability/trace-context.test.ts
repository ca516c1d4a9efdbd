import { describe, expect, test } from 'vitest';
import { MAX_TRACESTATE_CHARS } from '../../../src/observability/limits.ts';
import {
  formatTraceparent,
  parseTraceparent,
  traceEnvironment,
  traceHeaders,
} from '../../../src/observability/trace-context.ts';

const TRACE = '0af7651916cd43dd8448eb211c80319c';
const SPAN = 'b7ad6b7169203331';
const PARENT = `00-${TRACE}-${SPAN}-01`;

describe('parseTraceparent', () => {
  test('returns trace id, span id and flags', () => {
    const parsed = parseTraceparent(PARENT);
    expect(parsed).toEqual({ traceId: TRACE, spanId: SPAN, flags: 1 });
    expect(formatTraceparent(parsed!)).toBe(PARENT);
    expect(parseTraceparent(`01-${TRACE}-${SPAN}-ff-more`)).toEqual({
      traceId: TRACE,
      spanId: SPAN,
      flags: 255,
    });
  });

  test.each([
    null,
    '',
    'x',
    PARENT.toUpperCase(),
    `${PARENT}-more`,
    `${PARENT}\n`,
    `ff-${TRACE}-${SPAN}-01`,
    `00-${'0'.repeat(32)}-${SPAN}-01`,
    `00-${TRACE}-${'0'.repeat(16)}-01`,
    `00-${TRACE}-${SPAN}`,
    ` ${PARENT}`,
    `01-${TRACE}-${SPAN}-01-\0LD_PRELOAD=x`,
    `01-${TRACE}-${SPAN}-01-\u00e9`,
  ])('rejects %j', (text) => {
    expect(parseTraceparent(text)).toBeNull();
    expect(traceHeaders({ traceparent: text, tracestate: 'a=b' })).toEqual({});
  });
});

test('propagates a trace in headers and variables', () => {
  const trace = { traceparent: PARENT, tracestate: 'a=b' };
  expect(traceHeaders(trace)).toEqual({ traceparent: PARENT, tracestate: 'a=b' });
  expect(traceEnvironment(trace)).toEqual({ TRACEPARENT: PARENT, TRACESTATE: 'a=b' });
  expect(traceEnvironment({ traceparent: PARENT, tracestate: null })).toEqual({ TRACEPARENT: PARENT });
  expect([traceHeaders(null), traceEnvironment(null)]).toEqual([{}, {}]);
});

test.each(['', 'a=b\r\nx: y', 'a=é', 'x'.repeat(MAX_TRACESTATE_CHARS + 1)])(
  'omits the state %j',
  (tracestate) => {
    expect(traceHeaders({ traceparent: PARENT, tracestate })).toEqual({ traceparent: PARENT });
  },
);
