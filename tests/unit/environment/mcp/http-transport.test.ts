import type { IncomingMessage, ServerResponse } from 'node:http';
import { afterEach, describe, expect, test } from 'vitest';
import { MAX_MCP_MESSAGE_BYTES, MCP_STREAM_MIN_DELAY_MS } from '../../../../src/environment/limits.ts';
import { openHttpTransport } from '../../../../src/environment/mcp/http-transport.ts';
import { waitFor } from '../../../support/wait-for.ts';
import { webServer } from '../../../support/web-servers.ts';

type Answer = (request: IncomingMessage, response: ServerResponse, body: string) => void;

const cleanUps: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

/** A transport to a server that answers each HTTP method as given, and what both have received. */
async function connect(answers: Record<string, Answer>) {
  const requests: { method: string; headers: Record<string, unknown>; body: string; atMs: number }[] = [];
  const web = await webServer(async (request, response) => {
    let body = '';
    for await (const piece of request) body += piece;
    const { method = '', headers } = request;
    requests.push({ method, headers, body, atMs: performance.now() });
    const answer = answers[method];
    if (answer === undefined) response.writeHead(405).end();
    else answer(request, response, body);
  });
  cleanUps.push(() => web.close());
  const transport = await openHttpTransport(fetch as never, `${web.url}/mcp`, { 'x-key': 'k' });
  cleanUps.push(() => transport.close());
  const messages: object[] = [];
  const errors: Error[] = [];
  transport.onmessage = (message) => messages.push(message);
  transport.onerror = (error) => errors.push(error);
  await transport.start();
  const streams = () => requests.filter(({ method }) => method === 'GET');
  return { transport, requests, streams, messages, errors };
}

const events = (response: ServerResponse) => response.writeHead(200, { 'content-type': 'text/event-stream' });
const accept: Answer = (_, response) => response.writeHead(202).end();
const result = (id: number) => ({ jsonrpc: '2.0', id, result: {} });
const notification = (method: string) => ({ jsonrpc: '2.0', method });
const PING = { jsonrpc: '2.0', id: 1, method: 'ping' };
const INITIALIZED = notification('notifications/initialized');

describe('a response', () => {
  test('is JSON with one message or several', async () => {
    const { transport, messages, requests } = await connect({
      POST: (_, response, body) => {
        const answer = body.includes('"several"') ? [result(1), result(2)] : result(1);
        response.writeHead(200, { 'content-type': 'application/json', 'mcp-session-id': 's1' });
        response.end(JSON.stringify(answer));
      },
    });
    await transport.send(PING);
    expect(messages).toEqual([result(1)]);
    transport.setProtocolVersion?.('2025-06-18');
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

  test('is a stream of events', async () => {
    const { transport, messages } = await connect({
      POST: (_, response) =>
        events(response).end(`event: other\ndata: x\n\ndata: ${JSON.stringify(result(1))}\n\n`),
    });
    await transport.send(PING);
    await waitFor('the answer', () => messages.length === 1);
    expect(messages).toEqual([result(1)]);
  });

  test('continues on another stream when its stream ends early', async () => {
    const { transport, messages, streams } = await connect({
      POST: (_, response) => events(response).end('retry: 1\nid: e1\ndata:\n\n'),
      GET: (_, response) => events(response).end(`id: e2\ndata: ${JSON.stringify(result(1))}\n\n`),
    });
    await transport.send(PING);
    await waitFor('the answer', () => messages.length === 1);
    expect(streams()[0]).toMatchObject({ headers: { 'last-event-id': 'e1', accept: 'text/event-stream' } });
  });

  test('with an error status rejects the message and quotes a part of its text', async () => {
    const { transport } = await connect({
      POST: (_, response) => response.writeHead(404).end(`gone ${'x'.repeat(10_000)}`),
    });
    const failure = await transport.send(PING).catch((error: Error) => error);
    expect(failure).toMatchObject({ code: 404 });
    expect((failure as Error).message).toContain('gone');
    expect((failure as Error).message.length).toBeLessThan(700);
  });

  test('that is not a message is reported', async () => {
    const { transport, errors, messages } = await connect({
      POST: (_, response) => events(response).end('data: nonsense\n\ndata: 5\n\n'),
    });
    await transport.send(PING);
    await waitFor('the reports', () => errors.length === 2);
    expect(messages).toEqual([]);
  });
});

describe('a message that is too large', () => {
  const piece = 'x'.repeat(1024 * 1024);
  const pieces = MAX_MCP_MESSAGE_BYTES / piece.length + 1;

  /** A fetch whose response has so many pieces, each followed by `separator`. */
  function large(contentType: string, prefix: string, separator: string) {
    let sent = 0;
    const body = new ReadableStream<Uint8Array>({
      pull(controller) {
        if (sent++ < pieces) controller.enqueue(Buffer.from(`${prefix}${piece}${separator}`));
        else controller.close();
      },
    });
    return async () => new Response(body, { headers: { 'content-type': contentType } });
  }

  test('in JSON rejects', async () => {
    const fetch = large('application/json', '', '');
    const transport = await openHttpTransport(fetch as never, 'http://a/');
    await expect(transport.send(PING)).rejects.toThrow(`more than ${MAX_MCP_MESSAGE_BYTES} bytes`);
  });

  test.each([
    ['in one line', '', ''],
    ['in many lines', 'data: ', '\n'],
  ])('in an event is reported: %s', async (_, prefix, separator) => {
    const fetch = large('text/event-stream', prefix, separator);
    const transport = await openHttpTransport(fetch as never, 'http://a/');
    const errors: Error[] = [];
    transport.onerror = (error) => errors.push(error);
    await transport.send(PING);
    await waitFor('the report', () => errors.length > 0);
    expect(errors[0]?.message).toContain(`more than ${MAX_MCP_MESSAGE_BYTES} bytes`);
  });

  test.each(['\n\n', '\r\n\r\n'])('does not count the messages before it', async (separator) => {
    const fetch = large('text/event-stream', 'event: other\ndata: ', separator);
    const transport = await openHttpTransport(fetch as never, 'http://a/');
    const errors: Error[] = [];
    transport.onerror = (error) => errors.push(error);
    await transport.send(PING);
    await new Promise((resolve) => setTimeout(resolve, 300));
    expect(errors).toEqual([]);
  });
});

describe('the stream of messages from the server', () => {
  test('is opened after the initialization, and again when it ends', async () => {
    let opened = 0;
    const { transport, messages, streams } = await connect({
      POST: accept,
      GET: (_, response) => {
        opened++;
        const message = JSON.stringify(notification(`n${opened}`));
        events(response).write(`retry: 1\nid: e${opened}\ndata: ${message}\n\n`);
        if (opened < 3) response.end();
      },
    });
    await transport.send(INITIALIZED);
    await waitFor('three messages', () => messages.length === 3);
    expect(messages).toEqual(['n1', 'n2', 'n3'].map(notification));
    expect(streams().map(({ headers }) => headers['last-event-id'])).toEqual([undefined, 'e1', 'e2']);
  });

  test('is optional for the server', async () => {
    const { transport, streams, errors } = await connect({ POST: accept });
    await transport.send(INITIALIZED);
    await waitFor('the attempt', () => streams().length === 1);
    await transport.close();
    expect(errors).toEqual([]);
  });

  test('is not opened without end when the server sends nothing on it', async () => {
    let opened = 0;
    const { transport, errors } = await connect({
      POST: accept,
      GET: (_, response) => {
        opened++;
        // The first says how long to wait; the others send nothing.
        events(response).end(opened === 1 ? 'retry: 1\ndata:\n\n' : '');
      },
    });
    await transport.send(INITIALIZED);
    await waitFor('the last attempt', () => errors.some(({ message }) => message.startsWith('Maximum')));
    expect(errors.map(({ message }) => message)).toContain(
      'the MCP server ended its stream 6 times without sending anything',
    );
    expect(opened).toBeLessThan(10);
  });

  test('is opened after a minimum delay, even if the server asks for none', async () => {
    const { transport, streams } = await connect({
      POST: accept,
      GET: (_, response) => events(response).end('retry: 0\ndata:\n\n'),
    });
    await transport.send(INITIALIZED);
    await waitFor('three streams', () => streams().length >= 3);
    const [first, , third] = streams();
    expect(third!.atMs - first!.atMs).toBeGreaterThan(MCP_STREAM_MIN_DELAY_MS);
  });
});

test('close ends the streams and the session, and calls onclose once', async () => {
  const { transport, requests, streams, errors } = await connect({
    POST: (_, response) => response.writeHead(202, { 'mcp-session-id': 's1' }).end(),
    GET: (_, response) => events(response).write(': here\n\n'),
    DELETE: (_, response) => response.writeHead(500).end(),
  });
  let closed = 0;
  transport.onclose = () => closed++;
  await transport.send(INITIALIZED);
  await waitFor('the stream', () => streams().length === 1);
  await transport.close();
  await transport.close();
  expect(closed).toBe(1);
  expect(requests.at(-1)).toMatchObject({ method: 'DELETE', headers: { 'mcp-session-id': 's1' } });
  expect(errors.filter(({ message }) => message.includes('terminate'))).toEqual([]);
});

test('names the install command when the MCP SDK is missing', async () => {
  const missing = Object.assign(new Error('Cannot find package'), { code: 'ERR_MODULE_NOT_FOUND' });
  const load = () => Promise.reject(missing);
  await expect(openHttpTransport(fetch as never, 'http://a/', {}, load)).rejects.toMatchObject({
    kind: 'config',
    message: expect.stringContaining('npm install @modelcontextprotocol/sdk'),
  });
});
