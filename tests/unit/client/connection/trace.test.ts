import { AsyncLocalStorage } from 'node:async_hooks';
import { type Context, context, createTraceState, ROOT_CONTEXT, trace } from '@opentelemetry/api';
import { afterEach, expect, test } from 'vitest';
import { activeTrace, type TraceContext, type TraceSource } from '../../../../src/client/index.ts';
import { FakeServer, startParams } from '../fake-server.ts';

const TRACEPARENT = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';

afterEach(() => context.disable());

/** A fake SDK with a context manager. */
function installContextManager(): void {
  const storage = new AsyncLocalStorage<Context>();
  context.setGlobalContextManager({
    active: () => storage.getStore() ?? ROOT_CONTEXT,
    with: (active, work, self, ...args) => storage.run(active, () => work.apply(self as never, args)),
    bind: (_active, target) => target,
    enable() {
      return this;
    },
    disable() {
      return this;
    },
  });
}

const inSpan = <T>(spanId: string, work: () => T): T => {
  const spanContext = {
    traceId: '0af7651916cd43dd8448eb211c80319c',
    spanId,
    traceFlags: 1,
    traceState: createTraceState('a=b'),
  };
  return context.with(trace.setSpanContext(ROOT_CONTEXT, spanContext), work);
};

async function connect(source?: TraceSource) {
  const server = new FakeServer();
  const client = await server.connect(source === undefined ? {} : { trace: source });
  const traces = (method: string) =>
    server.requests(method).map((request) => (request as { trace?: unknown }).trace);
  return { server, client, traces };
}

test('sends no trace by default', async () => {
  const { client, traces } = await connect();
  await client.call('environment/status', null);
  await client.backend.start(startParams());
  expect([...traces('environment/status'), ...traces('process/start')]).toEqual([undefined, undefined]);
  await client.close();
});

test.each<[TraceContext | null | undefined, unknown]>([
  [
    { traceparent: TRACEPARENT, tracestate: 'a=b' },
    { traceparent: TRACEPARENT, tracestate: 'a=b' },
  ],
  [{ traceparent: TRACEPARENT }, { traceparent: TRACEPARENT, tracestate: null }],
  [
    { traceparent: TRACEPARENT, tracestate: 'a\nb' },
    { traceparent: TRACEPARENT, tracestate: null },
  ],
  [
    { traceparent: TRACEPARENT, tracestate: createTraceState('a=b') as unknown as string },
    { traceparent: TRACEPARENT, tracestate: null },
  ],
  [{ traceparent: { toString: () => TRACEPARENT } as unknown as string }, undefined],
  [{ traceparent: `${TRACEPARENT}\n` }, undefined],
  [{ traceparent: 'malformed' }, undefined],
  [{ traceparent: 7 as unknown as string }, undefined],
  [null, undefined],
  [undefined, undefined],
])('for the trace %j sends %j', async (given, sent) => {
  const { client, traces } = await connect(() => given);
  await client.call('environment/status', null);
  const process = await client.backend.start(startParams());
  await process.terminate();
  expect([traces('environment/status'), traces('process/start'), traces('process/terminate')]).toEqual(
    Array.from({ length: 3 }, () => [sent]),
  );
  await client.close();
});

test('sends a call even if its trace source throws', async () => {
  const { client, traces } = await connect(() => {
    throw new Error('no traces today');
  });
  await client.call('environment/status', null);
  expect(traces('environment/status')).toEqual([undefined]);
  await client.close();
});

test('sends the trace of the span in which the call is made', async () => {
  installContextManager();
  const { client, traces } = await connect(activeTrace);
  await client.call('environment/status', null);
  const calls = ['aaaaaaaaaaaaaaaa', 'bbbbbbbbbbbbbbbb'].map((id) =>
    inSpan(id, () => client.call('environment/status', null)),
  );
  await Promise.all(calls);
  await inSpan('cccccccccccccccc', () => client.backend.start(startParams()));
  const of = (id: string) => ({
    traceparent: `00-0af7651916cd43dd8448eb211c80319c-${id}-01`,
    tracestate: 'a=b',
  });
  expect(traces('environment/status')).toEqual([undefined, of('aaaaaaaaaaaaaaaa'), of('bbbbbbbbbbbbbbbb')]);
  expect(traces('process/start')).toEqual([of('cccccccccccccccc')]);
  await client.close();
});
