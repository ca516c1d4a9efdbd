import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import {
  type Attributes,
  type Context,
  context,
  type Span,
  type SpanOptions,
  trace,
} from '@opentelemetry/api';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { ProcessManager } from '../../src/process/process-manager.ts';
import { startServer, type TestClient, type TestServer } from '../../src/testing/index.ts';
import { shell } from '../support/programs.ts';
import { waitFor } from '../support/wait-for.ts';

const TRACE = '0af7651916cd43dd8448eb211c80319c';
const PARENT = `00-${TRACE}-b7ad6b7169203331-01`;
const OWN_SPAN = 'aaaaaaaaaaaaaaaa';

/** A span as an SDK would export it. */
interface Recorded {
  name: string;
  kind: number | undefined;
  parent: string | undefined;
  attributes: Attributes;
  ended: boolean;
}

let spans: Recorded[];
let server: TestServer;
let client: TestClient;

/** A fake SDK: it records started spans as children of the active one. */
function installSdk(): void {
  trace.setGlobalTracerProvider({
    getTracer: () => ({
      startSpan: (name: string, options: SpanOptions = {}, parent: Context = context.active()): Span => {
        const outer = trace.getSpanContext(parent);
        const record: Recorded = {
          name,
          kind: options.kind,
          parent: outer?.spanId,
          attributes: { ...options.attributes },
          ended: false,
        };
        spans.push(record);
        const { traceId = TRACE, traceState } = outer ?? {};
        return {
          ...trace.wrapSpanContext({
            traceId,
            spanId: OWN_SPAN,
            traceFlags: 1,
            ...(traceState && { traceState }),
          }),
          spanContext: () => ({
            traceId,
            spanId: OWN_SPAN,
            traceFlags: 1,
            ...(traceState && { traceState }),
          }),
          setAttribute(key: string, value: string) {
            record.attributes[key] = value;
            return this;
          },
          setStatus() {
            return this;
          },
          end: () => {
            record.ended = true;
          },
        } as unknown as Span;
      },
      startActiveSpan: () => {
        throw new Error('not used');
      },
    }),
  } as never);
}

beforeEach(() => {
  spans = [];
});

afterEach(async () => {
  vi.restoreAllMocks();
  trace.disable();
  await server.close();
});

async function serve(otel: boolean): Promise<void> {
  server = await startServer({ otel });
  client = await server.connect();
}

/** Returns the environment of a program that is started with this trace. */
async function environmentOf(traceMember: unknown, env: Record<string, string> = {}): Promise<string> {
  const params = shell('p', 'echo "$TRACEPARENT|$TRACESTATE"');
  client.sendText(
    JSON.stringify({
      id: 'start',
      method: 'process/start',
      params: { ...params, env: { ...params.env, ...env } },
      trace: traceMember,
    }),
  );
  return (await client.closedProcess('p')).text().trim();
}

describe('with tracing enabled', () => {
  test('without an SDK passes on the trace of a request unchanged', async () => {
    await serve(true);
    expect(await environmentOf({ traceparent: PARENT, tracestate: 'a=b' })).toBe(`${PARENT}|a=b`);
  });

  test.each([[undefined], [null], [{}], [{ traceparent: 'nonsense', tracestate: 'a=b' }]])(
    'passes on nothing for the trace %j',
    async (traceMember) => {
      await serve(true);
      expect(await environmentOf(traceMember)).toBe('|');
    },
  );

  test('prefers variables that the request itself sets', async () => {
    await serve(true);
    expect(await environmentOf({ traceparent: PARENT }, { TRACEPARENT: 'mine' })).toBe('mine|');
  });

  test('with an SDK creates a span per request, and passes it on', async () => {
    installSdk();
    await serve(true);
    expect(await environmentOf({ traceparent: PARENT, tracestate: 'a=b' })).toBe(
      `00-${TRACE}-${OWN_SPAN}-01|a=b`,
    );
    await client.call('environment/status', undefined as never);
    await expect(client.call('process/read', { processId: 'nobody' })).rejects.toThrow('unknown process');
    expect(spans).toEqual([
      {
        name: 'codex.exec_server.request',
        kind: 1,
        parent: 'b7ad6b7169203331',
        attributes: { 'rpc.system': 'jsonrpc', 'rpc.method': 'process/start', result: 'success' },
        ended: true,
      },
      expect.objectContaining({
        parent: undefined,
        attributes: expect.objectContaining({ 'rpc.method': 'environment/status', result: 'success' }),
      }),
      expect.objectContaining({
        ended: true,
        attributes: expect.objectContaining({ 'rpc.method': 'process/read', result: 'error' }),
      }),
    ]);
  });
});

test('ends the span of a dropped request with the connection', async () => {
  installSdk();
  server = await startServer({ otel: true, concurrentRequests: 1 });
  client = await server.connect();
  vi.spyOn(ProcessManager.prototype, 'start').mockReturnValue(new Promise(() => {}));
  client.sendText(JSON.stringify({ id: 1, method: 'process/start', params: shell('p', 'true') }));
  client.sendText(JSON.stringify({ id: 2, method: 'fs/canonicalize', params: { path: 'file:///' } }));
  await waitFor('both requests', () => spans.length === 2);
  await client.close();
  await waitFor('the end of the second', () => spans[1]!.ended);
  expect(spans[1]!.attributes).toMatchObject({ 'rpc.method': 'fs/canonicalize', result: 'disconnected' });
});

/** Returns the headers of a request sent through http/request. */
async function askedHeaders(traceMember: unknown, headers: { name: string; value: string }[] = []) {
  const web = createServer((request, response) => response.end(JSON.stringify(request.headers)));
  await new Promise<void>((resolve) => web.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(web.address() as AddressInfo).port}/`;
  const params = { requestId: 'h', method: 'GET', url, headers };
  client.sendText(JSON.stringify({ id: 'ask', method: 'http/request', params, trace: traceMember }));
  const { result } = (await client.waitFor(({ id }) => id === 'ask')) as { result: { bodyBase64: string } };
  web.closeAllConnections();
  await new Promise((resolve) => web.close(resolve));
  return JSON.parse(Buffer.from(result.bodyBase64, 'base64').toString()) as Record<string, string>;
}

describe('HTTP requests', () => {
  test('carry the trace of their own span', async () => {
    installSdk();
    await serve(true);
    expect(await askedHeaders({ traceparent: PARENT, tracestate: 'a=b' })).toMatchObject({
      traceparent: `00-${TRACE}-${OWN_SPAN}-01`,
      tracestate: 'a=b',
    });
    expect(spans.map(({ name, kind, attributes }) => [name, kind, attributes.result])).toEqual([
      ['codex.exec_server.request', 1, 'success'],
      ['codex.exec_server.http_request', 2, 'success'],
    ]);
  });

  test('carry headers that the client sets itself, and none with tracing disabled', async () => {
    await serve(true);
    const headers = [{ name: 'Traceparent', value: 'mine' }];
    expect(await askedHeaders({ traceparent: PARENT }, headers)).toMatchObject({ traceparent: 'mine' });
    await server.close();
    await serve(false);
    expect(await askedHeaders({ traceparent: PARENT })).not.toHaveProperty('traceparent');
  });
});

test('with tracing disabled records and passes on nothing', async () => {
  installSdk();
  await serve(false);
  expect(await environmentOf({ traceparent: PARENT, tracestate: 'a=b' })).toBe('|');
  expect(spans).toEqual([]);
});
