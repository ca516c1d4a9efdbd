import type { IncomingMessage, ServerResponse } from 'node:http';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { MCP_STREAM_SHORTEST_PAUSE_MS } from '../../../../src/environment/limits.ts';
import { McpHttpTransport } from '../../../../src/environment/mcp/http-transport.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { webServer } from '../../../support/web-servers.ts';

type Answer = (request: IncomingMessage, response: ServerResponse, body: string) => void;

const cleanUps: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

/** A transport to a server that answers each method as it is told, and what both have seen. */
async function scene(answers: Record<string, Answer>) {
  const requests: { method: string; headers: Record<string, unknown>; body: string }[] = [];
  const web = await webServer(async (request, response) => {
    let body = '';
    for await (const piece of request) body += piece;
    const { method = '', headers } = request;
    requests.push({ method, headers, body });
    const answer = answers[method];
    if (answer === undefined) response.writeHead(405).end();
    else answer(request, response, body);
  });
  cleanUps.push(() => web.close());
  const transport = new McpHttpTransport(fetch as never, `${web.url}/mcp`, { 'x-key': 'k' });
  cleanUps.push(() => transport.close());
  const messages: object[] = [];
  const errors: Error[] = [];
  transport.onmessage = (message) => messages.push(message);
  transport.onerror = (error) => errors.push(error);
  await transport.start();
  return { transport, requests, messages, errors, web };
}

const events = (response: ServerResponse) => response.writeHead(200, { 'content-type': 'text/event-stream' });
const result = (id: number) => ({ jsonrpc: '2.0', id, result: {} });
const PING = { jsonrpc: '2.0', id: 1, method: 'ping' };
const INITIALIZED = { jsonrpc: '2.0', method: 'notifications/initialized' };

describe('an answer', () => {
  test('comes as JSON, one message or several', async () => {
    const { transport, messages, requests } = await scene({
      POST: (_, response, body) => {
        const answer = body.includes('"several"') ? [result(1), result(2)] : result(1);
        response.writeHead(200, { 'content-type': 'application/json', 'mcp-session-id': 's1' });
        response.end(JSON.stringify(answer));
      },
    });
    await transport.send(PING);
    expect(messages).toEqual([result(1)]);
    transport.setProtocolVersion('2025-06-18');
    await transport.send({ ...PING, method: 'several' });
    expect(messages).toEqual([result(1), result(1), result(2)]);
    expect(transport.sessionId).toBe('s1');
    expect(requests[0]?.headers).toMatchObject({
      accept: 'application/json, text/event-stream',
      'x-key': 'k',
    });
    expect(requests[0]?.headers).not.toHaveProperty('mcp-session-id');
    expect(requests[1]?.headers).toMatchObject({
      'mcp-session-id': 's1',
      'mcp-protocol-version': '2025-06-18',
    });
  });

  test('comes as events', async () => {
    const { transport, messages } = await scene({
      POST: (_, response) =>
        events(response).end(`event: other\ndata: x\n\ndata: ${JSON.stringify(result(1))}\n\n`),
    });
    await transport.send(PING);
    await waitFor('the answer', () => messages.length === 1);
    expect(messages).toEqual([result(1)]);
  });

  test('goes on elsewhere when its stream breaks off', async () => {
    const { transport, messages, requests } = await scene({
      POST: (_, response) => events(response).end('retry: 1\nid: e1\ndata:\n\n'),
      GET: (_, response) => events(response).end(`id: e2\ndata: ${JSON.stringify(result(1))}\n\n`),
    });
    await transport.send(PING);
    await waitFor('the answer', () => messages.length === 1);
    expect(requests.filter(({ method }) => method === 'GET')).toMatchObject([
      { headers: { 'last-event-id': 'e1', accept: 'text/event-stream' } },
    ]);
  });

  test('that is an error page rejects, with a bounded part of it', async () => {
    const { transport } = await scene({
      POST: (_, response) => response.writeHead(404).end(`gone ${'x'.repeat(10_000)}`),
    });
    const failure = await transport.send(PING).catch((error: Error) => error);
    expect(failure).toMatchObject({ name: 'McpHttpError', code: 404 });
    expect((failure as Error).message).toContain('gone');
    expect((failure as Error).message.length).toBeLessThan(700);
  });

  test('that ends before it is there is reported, unless none is expected', async () => {
    const { transport, errors } = await scene({
      POST: (_, response) => events(response).end(': nothing\n\n'),
    });
    await transport.send({ jsonrpc: '2.0', id: 7, result: {} });
    await transport.send(PING);
    await waitFor('the report', () => errors.length > 0);
    expect(errors.map(({ message }) => message)).toEqual([
      'the MCP server has ended its answer before it was complete',
    ]);
  });

  test('that makes no sense is reported, and that it is none', async () => {
    const { transport, errors, messages } = await scene({
      POST: (_, response) => events(response).end('data: nonsense\n\ndata: 5\n\n'),
    });
    await transport.send(PING);
    await waitFor('the reports', () => errors.length === 3);
    expect(messages).toEqual([]);
  });
});

describe('the stream of what the server says by itself', () => {
  test('is opened once the client is initialized, and again when it ends', async () => {
    let opened = 0;
    const { transport, messages, requests } = await scene({
      POST: (_, response) => response.writeHead(202).end(),
      GET: (_, response) => {
        opened++;
        events(response).write(`retry: 1\nid: e${opened}\ndata: ${JSON.stringify({ n: opened })}\n\n`);
        if (opened < 3) response.end();
      },
    });
    await transport.send(INITIALIZED);
    await waitFor('three messages', () => messages.length === 3);
    expect(messages).toEqual([{ n: 1 }, { n: 2 }, { n: 3 }]);
    const places = requests
      .filter(({ method }) => method === 'GET')
      .map(({ headers }) => headers['last-event-id']);
    expect(places).toEqual([undefined, 'e1', 'e2']);
  });

  test('is done without where the server has none', async () => {
    const { transport, requests, errors } = await scene({
      POST: (_, response) => response.writeHead(202).end(),
    });
    await transport.send(INITIALIZED);
    await waitFor('the attempt', () => requests.some(({ method }) => method === 'GET'));
    await transport.close();
    expect(errors).toEqual([]);
  });

  test('is given up when nothing comes of it again and again', async () => {
    let opened = 0;
    const { transport, errors } = await scene({
      POST: (_, response) => response.writeHead(202).end(),
      GET: (_, response) => {
        opened++;
        // The first tells how long to wait; the others say nothing.
        events(response).end(opened === 1 ? 'retry: 1\ndata:\n\n' : '');
      },
    });
    await transport.send(INITIALIZED);
    await waitFor('the end', () => errors.some(({ message }) => message.includes('again and again')));
    expect(opened).toBeLessThan(10);
  });
});

test('closing ends the streams and the session, and is told once', async () => {
  const { transport, requests, web } = await scene({
    POST: (_, response) => response.writeHead(202, { 'mcp-session-id': 's1' }).end(),
    GET: (_, response) => events(response).write(': here\n\n'),
    DELETE: (_, response) => response.writeHead(200).end(),
  });
  let closed = 0;
  transport.onclose = () => closed++;
  await transport.send(INITIALIZED);
  await waitFor('the stream', () => requests.some(({ method }) => method === 'GET'));
  await transport.close();
  await transport.close();
  expect(closed).toBe(1);
  expect(requests.at(-1)).toMatchObject({ method: 'DELETE', headers: { 'mcp-session-id': 's1' } });
  await web.close();
  cleanUps.length = 0;
});

test('a server that wants no pause between streams has to wait all the same', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  cleanUps.push(() => vi.useRealTimers());
  let opened = 0;
  const ask = async (_: unknown, init?: RequestInit) => {
    if (init?.method !== 'GET') return new Response(null, { status: 202 });
    opened++;
    return new Response('retry: 0\ndata: {}\n\n', { headers: { 'content-type': 'text/event-stream' } });
  };
  const transport = new McpHttpTransport(ask as never, 'http://a/');
  cleanUps.push(() => transport.close());
  await transport.start();
  await transport.send(INITIALIZED);
  await vi.advanceTimersByTimeAsync(MCP_STREAM_SHORTEST_PAUSE_MS - 1);
  expect(opened).toBe(1);
  await vi.advanceTimersByTimeAsync(1);
  expect(opened).toBe(2);
});
