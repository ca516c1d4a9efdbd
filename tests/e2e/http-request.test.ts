import type { ServerResponse } from 'node:http';
import { afterEach, describe, expect, test } from 'vitest';
import { ExecServerClient } from '../../src/client/client.ts';
import { LocalEnvironment } from '../../src/environment/local-environment.ts';
import type { Connection } from '../../src/environment/remote/connection.ts';
import { RemoteEnvironment } from '../../src/environment/remote/remote-environment.ts';
import { DEFAULT_CONFIG, type ExecServerConfig } from '../../src/server/config/config.ts';
import { serve } from '../../src/server/serve.ts';
import { connectWebSocket } from '../../src/transport/websocket.ts';
import { waitFor } from '../support/wait-for.ts';
import { silentServer, type WebServer, webServer } from '../support/web-servers.ts';

const cleanUps: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

async function kept<S extends { close(): Promise<unknown> }>(starting: Promise<S>): Promise<S> {
  const opened = await starting;
  cleanUps.push(() => opened.close());
  return opened;
}

async function server(changes: Partial<ExecServerConfig> = {}): Promise<string> {
  const running = await serve({ ...DEFAULT_CONFIG, shutdownGracePeriodMs: 0, ...changes });
  cleanUps.push(() => running.close());
  return running.url ?? '';
}

async function connected(changes: Partial<ExecServerConfig> = {}): Promise<ExecServerClient> {
  return kept(ExecServerClient.connect({ url: await server(changes) }));
}

async function text(body: AsyncIterable<Uint8Array>): Promise<string> {
  const pieces: Uint8Array[] = [];
  for await (const piece of body) pieces.push(piece);
  return Buffer.concat(pieces).toString();
}

/** Writes as fast as it is read, without end; `written` counts. */
async function endless(): Promise<WebServer & { readonly written: () => number }> {
  let written = 0;
  const listener = (_: unknown, response: ServerResponse) => {
    const more = () => {
      do written += 64 * 1024;
      while (response.write(Buffer.alloc(64 * 1024)));
    };
    response.on('drain', more);
    more();
  };
  const opened = await kept(webServer(listener));
  return Object.assign(opened, { written: () => written });
}

/** Waits until a number stops changing. */
async function still(what: string, count: () => number): Promise<number> {
  let last = -1;
  await waitFor(what, async () => {
    const before = last;
    last = count();
    await new Promise((resolve) => setTimeout(resolve, 150));
    return before === last && last > 0;
  });
  return last;
}

describe('a request through a server', () => {
  test('returns the response whole or as a stream', async () => {
    const web = await kept(
      webServer((request, response) => request.pipe(response.setHeader('x-m', request.method ?? ''))),
    );
    const { http } = await connected();
    const body = Buffer.alloc(300_000, 'body');
    const whole = await http.request({ url: web.url, method: 'POST', body });
    expect(whole.status).toBe(200);
    expect(whole.headers).toContainEqual({ name: 'x-m', value: 'POST' });
    expect(Buffer.from(whole.body).equals(body)).toBe(true);
    const streamed = await http.stream({ url: web.url, method: 'PUT', body });
    expect(streamed.headers).toContainEqual({ name: 'x-m', value: 'PUT' });
    expect((await text(streamed.body)).length).toBe(body.length);
  });

  test('does not delay others when it hangs', async () => {
    const web = await kept(silentServer());
    const client = await connected({ concurrentRequests: 1 });
    const requests = new AbortController();
    const hung = Array.from({ length: 20 }, () =>
      client.http.request({ url: web.url }, { signal: requests.signal }),
    );
    for (const one of hung) one.catch(() => {});
    await waitFor('all to hang', () => web.connections.size === 20);
    expect(await client.call('environment/status', null)).toEqual({ status: 'ready' });
    requests.abort();
    await Promise.allSettled(hung);
    await waitFor('the ends of the connections', () => web.connections.size === 0);
  });

  test('waits for a slow body', async () => {
    const web = await kept(
      webServer((_, response) => {
        response.write('slow');
        setTimeout(() => response.end('ly'), 300);
      }),
    );
    const { http } = await connected();
    expect(Buffer.from((await http.request({ url: web.url })).body).toString()).toBe('slowly');
    await expect(http.request({ url: web.url }, { timeoutMs: 50 })).rejects.toThrow();
  });

  test('streams two hundred bodies concurrently', async () => {
    const open: ServerResponse[] = [];
    const web = await kept(
      webServer((_, response) => {
        response.write('begun ');
        open.push(response);
      }),
    );
    const { http } = await connected();
    const streams = await Promise.all(Array.from({ length: 200 }, () => http.stream({ url: web.url })));
    expect(open).toHaveLength(200);
    for (const response of open) response.end('done');
    const bodies = await Promise.all(streams.map(({ body }) => text(body)));
    expect(new Set(bodies)).toEqual(new Set(['begun done']));
  });

  test('ends when the client disconnects', async () => {
    const web = await kept(webServer((_, response) => response.write('begun')));
    const hung = await kept(silentServer());
    const client = await connected();
    await client.http.stream({ url: web.url });
    client.http.request({ url: hung.url }).catch(() => {});
    await waitFor('both', () => web.connections.size + hung.connections.size === 2);
    await client.close();
    await waitFor('the end of both', () => web.connections.size + hung.connections.size === 0);
  });

  test('ends when its reader stops', async () => {
    const web = await endless();
    const { http } = await connected();
    for await (const piece of (await http.stream({ url: web.url })).body) {
      expect(piece.length).toBeGreaterThan(0);
      break;
    }
    await waitFor('the end of the connection', () => web.connections.size === 0);
  });
});

describe('an unread body', () => {
  test('applies back-pressure when the reader stops', async () => {
    const web = await endless();
    const { http } = await connected();
    const { body, cancel } = await http.stream({ url: web.url });
    const pieces = body[Symbol.asyncIterator]();
    await pieces.next();
    const stopped = await still('the source to stop', web.written);
    expect(stopped).toBeLessThan(32 * 1024 * 1024);
    for (let read = 0; read < 64 * 1024 * 1024; ) read += (await pieces.next()).value?.length ?? 0;
    expect(web.written()).toBeGreaterThan(stopped);
    cancel();
  });

  test('applies back-pressure when the client reads nothing at all', async () => {
    const web = await endless();
    const transport = await connectWebSocket(await server());
    cleanUps.push(() => transport.close({ code: 1000, reason: '' }));
    let answered = false;
    transport.open({
      message: (message) => {
        if (!message.startsWith('{"id":2')) return;
        answered = true;
        transport.setReceiving(false);
      },
      undecodable: () => {},
      drained: () => {},
      ended: () => {},
      closed: () => {},
    });
    transport.send('{"id":1,"method":"initialize","params":{"clientName":"x"}}');
    transport.send('{"method":"initialized"}');
    const params = { method: 'GET', url: web.url, requestId: 'r', streamResponse: true };
    transport.send(JSON.stringify({ id: 2, method: 'http/request', params }));
    await waitFor('the answer', () => answered);
    expect(await still('the source to stop', web.written)).toBeLessThan(64 * 1024 * 1024);
  });

  test('is rejected when it is too large to be kept', async () => {
    const web = await endless();
    const { http } = await connected({ maxHttpBodyBytes: 1024 * 1024 });
    await expect(http.request({ url: web.url })).rejects.toMatchObject({
      code: -32001,
      message: expect.stringContaining('maxHttpBodyBytes'),
    });
    await waitFor('the end of the connection', () => web.connections.size === 0);
  });
});

describe('configuration', () => {
  test('blocks private addresses, whatever leads there', async () => {
    const web = await kept(webServer((_, response) => response.end('secret')));
    const { http } = await connected({ httpPrivateAddresses: false });
    const refusal = { code: -32600, message: expect.stringContaining('httpPrivateAddresses') };
    for (const host of ['127.0.0.1', 'localhost', '0x7f.1', '2130706433', '[::ffff:127.0.0.1]']) {
      await expect(http.request({ url: `http://${host}:${web.port}/` })).rejects.toMatchObject(refusal);
    }
    expect(web.opened).toBe(0);
  });

  test('limits requests to allowed hosts', async () => {
    const web = await kept(webServer((_, response) => response.end('hi')));
    const { http } = await connected({ httpAllowedHosts: '127.0.0.1', httpDeniedHosts: 'localhost' });
    expect((await http.request({ url: web.url })).status).toBe(200);
    const other = { code: -32600, message: expect.stringContaining('httpDeniedHosts') };
    await expect(http.request({ url: `http://localhost:${web.port}` })).rejects.toMatchObject(other);
  });
});

describe.each([
  [
    'remote',
    async () => {
      const url = await server();
      const connect = async (): Promise<Connection> => {
        const client = await ExecServerClient.connect({ url });
        return { client, backend: client.backend, files: {} as never, http: client.http };
      };
      return new RemoteEnvironment('e', { connect, reconnects: true, eager: true, retryWindowMs: 0 });
    },
  ],
  ['local', async () => new LocalEnvironment()],
] as const)('fetch of a %s environment', (_, open) => {
  async function environment() {
    const opened = await open();
    cleanUps.push(() => opened.dispose());
    return opened;
  }

  test('sends and returns what fetch does', async () => {
    const web = await kept(
      webServer((request, response) => {
        response.setHeader('x-got', `${request.method} ${request.headers['content-type']}`);
        response.setHeader('set-cookie', ['a=1', 'b=2']);
        request.pipe(response.writeHead(201));
      }),
    );
    const { fetch } = await environment();
    const response = await fetch(web.url, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: JSON.stringify({ a: 1 }),
    });
    expect(response.status).toBe(201);
    expect(response.headers.get('x-got')).toBe('POST application/json');
    expect(response.headers.getSetCookie()).toEqual(['a=1', 'b=2']);
    expect(await response.json()).toEqual({ a: 1 });
  });

  test('follows, stops at or rejects redirects', async () => {
    const web = await kept(
      webServer((request, response) => {
        if (request.url === '/there') response.end('there');
        else response.writeHead(302, { location: '/there' }).end();
      }),
    );
    const { fetch } = await environment();
    expect(await (await fetch(new URL(web.url))).text()).toBe('there');
    expect((await fetch(new Request(web.url, { redirect: 'manual' }))).status).toBe(302);
    await expect(fetch(web.url, { redirect: 'error' })).rejects.toThrow('fetch failed');
  });

  test('has no body where there is none', async () => {
    const web = await kept(webServer((_, response) => response.writeHead(204).end()));
    const { fetch } = await environment();
    const response = await fetch(web.url);
    expect([response.status, response.body]).toEqual([204, null]);
  });

  test("is aborted before the response and in the body, with the caller's reason", async () => {
    const hung = await kept(silentServer());
    const begun = await kept(webServer((_, response) => response.write('begun')));
    const { fetch } = await environment();
    const first = new AbortController();
    const waiting = fetch(hung.url, { signal: first.signal });
    await waitFor('a connection', () => hung.connections.size === 1);
    first.abort();
    await expect(waiting).rejects.toMatchObject({ name: 'AbortError' });
    const second = new AbortController();
    const response = await fetch(begun.url, { signal: second.signal });
    second.abort();
    await expect(response.text()).rejects.toMatchObject({ name: 'AbortError' });
    await waitFor('the end of both', () => hung.connections.size + begun.connections.size === 0);
  });

  test('ends the request when the body is cancelled', async () => {
    const web = await kept(webServer((_, response) => response.write('begun')));
    const { fetch } = await environment();
    await (await fetch(web.url)).body?.cancel();
    await waitFor('the end of the connection', () => web.connections.size === 0);
  });

  test('fails like fetch, with the reason', async () => {
    const { fetch } = await environment();
    const failure = await fetch('http://127.0.0.1:1/?secret').catch((error: Error) => error);
    expect(failure).toBeInstanceOf(TypeError);
    const { cause } = failure as { cause?: Error };
    expect(cause?.message).toContain('ECONNREFUSED');
    expect(cause?.message).not.toContain('secret');
  });
});
