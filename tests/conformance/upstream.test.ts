import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { WebSocketServer } from 'ws';
import { type Result, runCase, type Step } from './runner.mjs';

/** A server that fetches the URL itself and then sends the body deltas that the test asks for. */
let server: WebSocketServer;
let url: string;

beforeAll(async () => {
  server = new WebSocketServer({ host: '127.0.0.1', port: 0 });
  server.on('connection', (socket) => {
    const send = (message: object) => socket.send(JSON.stringify(message));
    socket.on('message', async (data) => {
      const { id, method, params } = JSON.parse(data.toString());
      if (method === 'initialize')
        send({ id, result: { sessionId: '0123abcd-0123-4567-89ab-0123456789ab' } });
      if (method !== 'ask') return;
      const answer = await fetch(params.url, { headers: { 'x-a': 'b' } }).then(
        (response) => response.text(),
        () => 'failed',
      );
      send({ id, result: answer });
      for (const delta of params.deltas ?? []) send({ method: 'http/request/bodyDelta', params: delta });
    });
  });
  await new Promise((resolve) => server.once('listening', resolve));
  url = `ws://127.0.0.1:${(server.address() as AddressInfo).port}`;
});

afterAll(() => {
  for (const socket of server.clients) socket.terminate();
  server.close();
});

function play(...steps: Step[]): Promise<Result> {
  return runCase({ name: 'a-case', steps }, { url, server: 'exec-server', deadlineMs: 3_000 });
}

function problemOf(result: Result): string {
  return result.status === 'failed' ? result.failure.message : result.status;
}

const UPSTREAM = {
  upstream: { '/ok': { body: 'hi' }, '/raw': { raw: 'HTTP/1.0 200 OK\r\n\r\nraw', close: true } },
};
const ASK = { request: 'ask', params: { url: '{{upstream}}/ok' }, result: 'hi' };
const piece = (seq: number, text: string, rest = {}) => ({
  ...{ requestId: 'r', seq, deltaBase64: btoa(text), done: false, error: null },
  ...rest,
});
const END = { done: true };

describe('the web server of a case', () => {
  test('answers as scripted and records the requests', async () => {
    const raw = { request: 'ask', params: { url: '{{upstream}}/raw' }, result: 'raw' };
    const seen = { received: '/ok', line: 'GET /ok HTTP/1.1', head: { $includes: 'x-a: b' }, body: '' };
    const result = await play(UPSTREAM, ASK, raw, seen, { notReceived: '/ok' }, { upstreamGone: '/raw' });
    expect(problemOf(result)).toBe('passed');
  });

  test.each<[string, Step[], string]>([
    ['another head', [ASK, { received: '/ok', head: 'GET' }], 'head of the request'],
    ['another line', [ASK, { received: '/ok', line: 'PUT /ok HTTP/1.1' }], 'request line'],
    ['no request', [{ received: '/ok', line: 'x' }], 'no request to /ok'],
    ['a request too many', [ASK, { notReceived: '/ok' }], 'requests to /ok'],
    ['an open connection', [ASK, { upstreamGone: '/ok' }], 'still open'],
    ['other connections', [ASK, { upstreamConnections: 0 }], 'connections to the web server'],
  ])('reports %s', async (_, steps, problem) => {
    expect(problemOf(await play(UPSTREAM, ...steps))).toContain(problem);
  });
});

describe('a streamed body', () => {
  async function streamed(deltas: object[], step: Step = {}): Promise<string> {
    const ask = { ...ASK, params: { ...ASK.params, deltas } };
    return problemOf(await play(UPSTREAM, ask, { streamed: 'r', ...step }));
  }

  test('is collected completely', async () => {
    const deltas = [piece(1, 'a'), piece(2, 'b'), piece(3, '', END)];
    expect(await streamed(deltas, { body: 'ab', deltas: 2 })).toBe('passed');
    expect(await streamed([piece(1, '', { ...END, error: 'x' })], { error: 'x' })).toBe('passed');
  });

  test.each<[string, object[], Step, string]>([
    ['a gap', [piece(2, 'a')], {}, 'piece of the body, at seq'],
    ['an empty piece', [piece(1, '')], {}, 'bytes in a piece'],
    ['bytes at the end', [piece(1, 'a', END)], {}, 'bytes in the last piece'],
    ['an error', [piece(1, '', { ...END, error: 'x' })], {}, 'error of the body'],
    ['another body', [piece(1, 'a'), piece(2, '', END)], { body: 'b' }, 'body'],
    ['no end', [piece(1, 'a')], {}, 'no http/request/bodyDelta'],
  ])('reports %s', async (_, deltas, step, problem) => {
    expect(await streamed(deltas, step)).toContain(problem);
  });
});
