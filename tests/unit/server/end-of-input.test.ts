import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { PassThrough } from 'node:stream';
import { afterEach, describe, expect, test, vi } from 'vitest';
import { STDIN_ACCEPTED_CHUNKS } from '../../../src/process/limits.ts';
import { DEFAULT_CONFIG } from '../../../src/server/config/config.ts';
import { LAST_RESPONSES_TIMEOUT_MS } from '../../../src/server/limits.ts';
import { type RunningServer, serveStdio } from '../../../src/server/serve.ts';
import { base64, shell } from '../../support/programs.ts';
import { waitFor } from '../../support/wait-for.ts';
import { type WebServer, webServer } from '../../support/web-servers.ts';

interface Message {
  readonly id?: number;
  readonly method?: string;
  readonly result?: Record<string, unknown>;
  readonly error?: { readonly code: number; readonly message: string };
  readonly params?: Record<string, unknown>;
}

const servers: (RunningServer | WebServer)[] = [];

afterEach(async () => {
  vi.useRealTimers();
  await Promise.all(servers.splice(0).map((server) => server.close()));
});

/** A server on a pair of streams and the messages that it has sent. `say` sends a request for each line. */
async function stdioServer() {
  const input = new PassThrough();
  const output = new PassThrough();
  const config = { ...DEFAULT_CONFIG, logLevel: 'error', shutdownGracePeriodMs: 0 } as const;
  const server = await serveStdio(config, input, output);
  servers.push(server);
  const received: Buffer[] = [];
  const messages = () =>
    Buffer.concat(received)
      .toString()
      .split('\n')
      .slice(0, -1)
      .map((line) => JSON.parse(line) as Message);
  let nextId = 1;
  const say = (method: string, params: unknown): number => {
    input.write(`${JSON.stringify({ id: nextId, method, params })}\n`);
    return nextId++;
  };
  say('initialize', {});
  input.write('{"method":"initialized"}\n');
  const read = () => output.on('data', (chunk: Buffer) => received.push(chunk));
  const answer = (id: number) => messages().find((message) => message.id === id);
  const answered = (id: number) => waitFor(`answer ${id}`, () => answer(id));
  /** Ends the input; resolves when the server has seen it. */
  const end = async () => {
    const seen = once(input, 'end');
    input.end();
    await seen;
    await new Promise(setImmediate);
  };
  return { server, say, end, read, messages, answer, answered };
}

/** A web server that answers when the test calls its response. */
async function slowWebServer() {
  const asked: ServerResponse[] = [];
  const server = await webServer((_, response) => asked.push(response));
  servers.push(server);
  return { asked, url: server.url };
}

const get = (url: string, more: object = {}) => ({ requestId: 'r', method: 'GET', url, ...more });

describe('at the end of input', () => {
  test('answers an HTTP request, then ends the server', async () => {
    const { asked, url } = await slowWebServer();
    const { server, say, end, read, answer } = await stdioServer();
    read();
    const id = say('http/request', get(url));
    await waitFor('the request', () => asked.length === 1);
    await end();
    asked[0]!.end('hello');
    await server.closed;
    expect(answer(id)?.result).toMatchObject({ status: 200, bodyBase64: base64('hello') });
  });

  test('sends a streamed body to its end, also to a slow reader', async () => {
    const { asked, url } = await slowWebServer();
    const { server, say, end, read, messages, answered } = await stdioServer();
    const id = say('http/request', get(url, { streamResponse: true }));
    await waitFor('the request', () => asked.length === 1);
    await end();
    const body = Buffer.alloc(3_000_000, 'x');
    asked[0]!.end(body);
    await once(asked[0]!, 'finish');
    read();
    await answered(id);
    await server.closed;
    const deltas = messages().filter(({ method }) => method === 'http/request/bodyDelta');
    const bytes = deltas.map(({ params }) => Buffer.from(String(params?.deltaBase64), 'base64'));
    expect(Buffer.concat(bytes).equals(body)).toBe(true);
    expect(deltas.at(-1)?.params).toMatchObject({ done: true, error: null });
  });

  test('answers requests that wait for a program with what is available', async () => {
    const { server, say, end, read, answer, answered } = await stdioServer();
    read();
    await answered(say('process/start', { ...shell('p', 'exec sleep 600'), pipeStdin: true }));
    const read1 = say('process/read', { processId: 'p', waitMs: 600_000 });
    const wait = say('process/wait', { processId: 'p', until: 'exited' });
    const chunk = base64('x'.repeat(65_536));
    let write = 0;
    for (let count = 0; count < STDIN_ACCEPTED_CHUNKS + 4; count++) {
      write = say('process/write', { processId: 'p', chunk });
    }
    await answered(write - 4);
    expect(answer(write)).toBeUndefined();
    await end();
    await server.closed;
    expect(answer(read1)?.result).toMatchObject({ chunks: [], exited: false });
    expect(answer(wait)?.result).toMatchObject({ running: true });
    expect(answer(write)?.result).toEqual({ status: 'accepted' });
  });

  test('aborts a request that the web server does not answer', async () => {
    const { asked, url } = await slowWebServer();
    const { server, say, end, read, answer } = await stdioServer();
    read();
    const id = say('http/request', get(url));
    await waitFor('the request', () => asked.length === 1);
    const timers = vi.spyOn(globalThis, 'setTimeout');
    await end();
    const [expire] = timers.mock.calls.find(([, ms]) => ms === LAST_RESPONSES_TIMEOUT_MS)!;
    timers.mockRestore();
    expect(answer(id)).toBeUndefined();
    expire();
    await server.closed;
    expect(answer(id)?.error?.message).toContain('the connection has ended');
  });

  test('restarts the timeout with each response', async () => {
    const { asked, url } = await slowWebServer();
    const { server, say, end, read, answer, answered } = await stdioServer();
    read();
    const ids = [say('http/request', get(url)), say('http/request', get(url))];
    await waitFor('the requests', () => asked.length === 2);
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    await end();
    await vi.advanceTimersByTimeAsync(LAST_RESPONSES_TIMEOUT_MS * 0.7);
    asked[0]!.end('one');
    await Promise.race(ids.map(answered));
    await vi.advanceTimersByTimeAsync(LAST_RESPONSES_TIMEOUT_MS * 0.7);
    vi.useRealTimers();
    asked[1]!.end('two');
    await server.closed;
    expect(ids.map((id) => answer(id)?.result?.status)).toEqual([200, 200]);
  });

  test('restarts the timeout with each piece of a body', async () => {
    const { asked, url } = await slowWebServer();
    const { server, say, end, read, messages } = await stdioServer();
    read();
    say('http/request', get(url, { streamResponse: true }));
    await waitFor('the request', () => asked.length === 1);
    const deltas = () => messages().filter(({ method }) => method === 'http/request/bodyDelta');
    const piece = async (count: number) => {
      asked[0]!.write('piece');
      await waitFor(`piece ${count}`, () => deltas().length === count);
    };
    await piece(1);
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    await end();
    for (const count of [2, 3, 4]) {
      await vi.advanceTimersByTimeAsync(LAST_RESPONSES_TIMEOUT_MS * 0.7);
      await piece(count);
    }
    vi.useRealTimers();
    asked[0]!.end();
    await server.closed;
    expect(deltas().at(-1)?.params).toMatchObject({ seq: 5, done: true, error: null });
  });

  test('closes the connection although a program prints without end', async () => {
    const { server, say, end, read, messages, answered } = await stdioServer();
    await say('process/start', shell('p', 'exec yes'));
    const wait = say('process/wait', { processId: 'p', until: 'exited' });
    await end();
    read();
    await answered(wait);
    await server.closed;
    expect(messages().every(({ method }) => method === undefined || method.startsWith('process/'))).toBe(
      true,
    );
  });
});
