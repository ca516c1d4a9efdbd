import { setMaxListeners } from 'node:events';
import type { RequestListener } from 'node:http';
import { constants, type Http2ServerRequest } from 'node:http2';
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { ANY_HOST, type HostPolicy, hostPatterns } from '../../../../src/network/http/host-policy.ts';
import { HttpClient, type HttpResponse } from '../../../../src/network/http/http-client.ts';
import type { HttpRequest } from '../../../../src/network/http/request.ts';
import { Certificates, pem } from '../../../support/certificates.ts';
import { waitFor } from '../../../support/wait-for.ts';
import {
  http2WebServer,
  proxyServer,
  secureWebServer,
  silentServer,
  type WebServer,
  webServer,
} from '../../../support/web-servers.ts';

const NEVER = new AbortController().signal;
setMaxListeners(0, NEVER);
const cleanUps: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).reverse()) await cleanUp();
});

function client(env: Record<string, string> = {}, policy: HostPolicy = ANY_HOST): HttpClient {
  // On a busy machine a handshake may take longer than the default, and requests would open connections of their own.
  const made = new HttpClient({ env, headerVariables: 'any', policy, sharedOpeningMs: 60_000 });
  cleanUps.push(() => made.close());
  return made;
}

async function kept<S extends { close(): Promise<void> }>(starting: Promise<S>): Promise<S> {
  const server = await starting;
  cleanUps.push(() => server.close());
  return server;
}

function get(url: string, changes: Partial<HttpRequest> = {}): HttpRequest {
  return { method: 'GET', url, headers: [], body: null, redirect: 'follow', timeoutMs: null, ...changes };
}

async function text({ body }: HttpResponse): Promise<string> {
  const pieces: Buffer[] = [];
  for await (const piece of body) pieces.push(piece);
  return Buffer.concat(pieces).toString();
}

async function ask(via: HttpClient, url: string, changes?: Partial<HttpRequest>): Promise<string> {
  return text(await via.send(get(url, changes), NEVER));
}

describe('connections', () => {
  test('are reused, and closed with the client', async () => {
    const server = await kept(webServer((_, response) => response.end('hi')));
    const via = client();
    for (let count = 0; count < 5; count++) expect(await ask(via, server.url)).toBe('hi');
    expect(server.opened).toBe(1);
    via.close();
    await waitFor('the end of the connection', () => server.connections.size === 0);
  });

  test('are not shared between clients', async () => {
    const server = await kept(webServer((_, response) => response.end('hi')));
    await ask(client(), server.url);
    await ask(client(), server.url);
    expect(server.opened).toBe(2);
  });

  test('that the server closed are replaced for repeatable requests', async () => {
    const server = await kept(webServer((_, response) => response.end('hi')));
    const via = client();
    for (let count = 0; count < 5; count++) {
      expect(await ask(via, server.url, { method: 'PUT', body: Buffer.from('x') })).toBe('hi');
      for (const socket of server.connections) socket.destroy();
    }
  });

  test('carry many concurrent requests', async () => {
    const server = await kept(webServer((request, response) => response.end(request.url)));
    const via = client();
    const paths = Array.from({ length: 100 }, (_, index) => `/${index}`);
    expect(await Promise.all(paths.map((path) => ask(via, `${server.url}${path}`)))).toEqual(paths);
  });
});

describe('a request ends', () => {
  test('when its timeout passes before the response', async () => {
    const server = await kept(silentServer());
    await expect(
      client().send(get(`${server.url}/p?secret`, { timeoutMs: 50 }), NEVER),
    ).rejects.toMatchObject({
      kind: 'failed',
      message: `http/request failed: error sending request for url (${server.url}/p): it took longer than 50 ms`,
    });
    await waitFor('the end of the connection', () => server.connections.size === 0);
  });

  test('when its timeout passes in the body', async () => {
    const server = await kept(webServer((_, response) => response.write('begun')));
    const answer = await client().send(get(server.url, { timeoutMs: 500 }), NEVER);
    await expect(text(answer)).rejects.toThrow('error decoding response body: it took longer than 500 ms');
    await waitFor('the end of the connection', () => server.connections.size === 0);
  });

  test('when it is aborted, before the response and in the body', async () => {
    const silent = await kept(silentServer());
    const endless = await kept(webServer((_, response) => response.write('begun')));
    const via = client();
    const first = new AbortController();
    const waiting = via.send(get(silent.url), first.signal);
    await waitFor('a connection', () => silent.connections.size === 1);
    first.abort(new Error('not wanted'));
    await expect(waiting).rejects.toThrow('not wanted');
    const second = new AbortController();
    const answer = await via.send(get(endless.url), second.signal);
    second.abort(new Error('not wanted'));
    await expect(text(answer)).rejects.toThrow('error decoding response body: not wanted');
    await waitFor('the end of both', () => silent.connections.size + endless.connections.size === 0);
  });

  test('when its body is not read to the end', async () => {
    const server = await kept(webServer((_, response) => response.write('begun')));
    const via = client();
    for await (const piece of (await via.send(get(server.url), NEVER)).body) {
      expect(piece.toString()).toBe('begun');
      break;
    }
    (await via.send(get(server.url), NEVER)).cancel();
    await waitFor('the end of the connections', () => server.connections.size === 0);
  });

  test('after a switch of protocols, without affecting others', async () => {
    const server = await kept(silentServer());
    const wanted = new AbortController();
    const sending = client().send(get(server.url), wanted.signal);
    await waitFor('a connection', () => server.connections.size === 1);
    const head = 'HTTP/1.1 101 Other\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n';
    for (const socket of server.connections) socket.write(head);
    const answer = await sending;
    wanted.abort(new Error('not wanted'));
    expect(answer.status).toBe(101);
    await expect(text(answer)).rejects.toThrow('not wanted');
  });

  test('only after weeks with a timeout of weeks', async () => {
    const server = await kept(webServer((_, response) => response.end('hi')));
    expect(await ask(client(), server.url, { timeoutMs: 2 ** 40 })).toBe('hi');
  });
});

test('applies back-pressure to the body', async () => {
  let written = 0;
  const server = await kept(
    webServer((_, response) => {
      const more = () => {
        while (written < 256 * 1024 * 1024) {
          written += 64 * 1024;
          if (!response.write(Buffer.alloc(64 * 1024))) break;
        }
      };
      response.on('drain', more);
      more();
    }),
  );
  const answer = await client().send(get(server.url), NEVER);
  let settled = -1;
  await waitFor('the server to stop', async () => {
    const before = written;
    await new Promise((resolve) => setTimeout(resolve, 100));
    settled = written;
    return before === written;
  });
  expect(settled).toBeLessThan(64 * 1024 * 1024);
  answer.cancel();
});

describe('host policy', () => {
  const noPrivate: HostPolicy = { ...ANY_HOST, privateAddresses: false };

  test('checks the address of a name', async () => {
    const server = await kept(webServer((_, response) => response.end('hi')));
    const refusal = { kind: 'refused', message: expect.stringContaining('httpPrivateAddresses') };
    const url = `http://localhost:${server.port}/`;
    await expect(client({}, noPrivate).send(get(url), NEVER)).rejects.toMatchObject(refusal);
    const noLoopback = { ...ANY_HOST, denied: hostPatterns('127.0.0.*, ::1') };
    const denial = { kind: 'refused', message: expect.stringContaining('httpDeniedHosts') };
    await expect(client({}, noLoopback).send(get(url), NEVER)).rejects.toMatchObject(denial);
    const proxied = client({ ALL_PROXY: 'http://127.0.0.1:1' }, noLoopback);
    await expect(proxied.send(get(url), NEVER)).rejects.toMatchObject(denial);
    expect(await ask(client(), url)).toBe('hi');
    expect(server.opened).toBe(1);
  });

  test('checks every redirect', async () => {
    const target = await kept(webServer((_, response) => response.end('secret')));
    const server = await kept(
      webServer((_, response) =>
        response.writeHead(302, { location: `http://localhost:${target.port}/` }).end(),
      ),
    );
    const policy = { ...ANY_HOST, denied: hostPatterns('localhost') };
    await expect(client({}, policy).send(get(server.url), NEVER)).rejects.toMatchObject({
      kind: 'refused',
      message: expect.stringContaining('httpDeniedHosts'),
    });
    expect(target.opened).toBe(0);
  });

  test('is checked before a proxy is used', async () => {
    const proxy = await kept(proxyServer());
    const via = client({ ALL_PROXY: proxy.url }, noPrivate);
    await expect(via.send(get('http://localhost:1/'), NEVER)).rejects.toMatchObject({ kind: 'refused' });
    await expect(via.send(get('http://10.0.0.1/'), NEVER)).rejects.toMatchObject({ kind: 'refused' });
    expect(proxy.seen).toEqual([]);
    expect(await ask(via, 'http://name.invalid/p')).toBe('through the proxy: http://name.invalid/p');
  });
});

describe('proxy', () => {
  test('gets the whole URL and the credentials', async () => {
    const proxy = await kept(proxyServer());
    const via = client({ http_proxy: `http://us%40er:pass@127.0.0.1:${proxy.port}` });
    expect(await ask(via, 'http://nowhere.invalid/p?q')).toBe(
      'through the proxy: http://nowhere.invalid/p?q',
    );
    expect(proxy.seen).toEqual([
      { line: 'GET http://nowhere.invalid/p?q', authorization: `Basic ${btoa('us@er:pass')}` },
    ]);
  });

  test('reports an unusable proxy without its password', async () => {
    const via = client({ ALL_PROXY: 'socks5://user:hidden@127.0.0.1:1' });
    await expect(via.send(get('http://a.invalid/'), NEVER)).rejects.toMatchObject({
      kind: 'failed',
      message: expect.not.stringContaining('hidden'),
    });
  });
});

describe('over TLS', () => {
  const certificates = new Certificates();
  let authority: string;
  let files: { cert: string; key: string };

  beforeAll(() => {
    const made = certificates.authority('authority');
    authority = made.cert;
    files = pem(certificates.signedBy(made, 'server'));
  });
  afterAll(() => certificates.remove());

  const echo: RequestListener = (request, response) => {
    response.setHeader('x-version', request.httpVersion);
    request.pipe(response);
  };

  async function version(server: WebServer, env: Record<string, string>): Promise<string | undefined> {
    const request = get(server.url, { method: 'POST', body: Buffer.from('body') });
    const answer = await client(env).send(request, NEVER);
    expect(await text(answer)).toBe('body');
    return answer.fields.find(({ name }) => name === 'x-version')?.value;
  }

  test.each(['CODEX_CA_CERTIFICATE', 'SSL_CERT_FILE'])('trusts the authorities of %s', async (variable) => {
    const server = await kept(secureWebServer(files, echo));
    expect(await version(server, { [variable]: authority })).toBe('1.1');
  });

  test('does not trust a server of an unknown authority', async () => {
    const server = await kept(secureWebServer(files, echo));
    await expect(client().send(get(server.url), NEVER)).rejects.toThrow('certificate');
    expect(server.connections.size).toBeLessThanOrEqual(1);
  });

  test('fails each request until an unreadable CA file can be read', async () => {
    const server = await kept(secureWebServer(files, echo));
    const env = { CODEX_CA_CERTIFICATE: '/no/such', SSL_CERT_FILE: authority };
    const via = client(env);
    const problem = 'Failed to read CA certificate file /no/such selected by CODEX_CA_CERTIFICATE';
    await expect(via.send(get(server.url), NEVER)).rejects.toThrow(problem);
    await expect(via.send(get(server.url), NEVER)).rejects.toThrow(problem);
    env.CODEX_CA_CERTIFICATE = authority;
    expect(await ask(via, server.url, { method: 'POST', body: Buffer.from('x') })).toBe('x');
  });

  test.each(['/dev/zero', '/etc/hostname'])('rejects %s as a CA file', async (path) => {
    const server = await kept(secureWebServer(files, echo));
    await expect(client({ SSL_CERT_FILE: path }).send(get(server.url), NEVER)).rejects.toThrow(
      `Failed to read CA certificate file ${path}`,
    );
  });

  test('reads the body of an HTTP/2 response after its stream has closed', async () => {
    const server = await kept(http2WebServer(files, (_, response) => response.end('body')));
    const via = client({ SSL_CERT_FILE: authority });
    const first = await via.send(get(server.url), NEVER);
    // The streams share a connection: the first has arrived completely when the second has.
    expect(await ask(via, server.url)).toBe('body');
    expect(await text(first)).toBe('body');
    expect(server.opened).toBe(1);
  });

  test('uses HTTP/2 on one connection if the server supports it', async () => {
    const server = await kept(http2WebServer(files, echo));
    expect(await version(server, { SSL_CERT_FILE: authority })).toBe('2.0');
    const via = client({ SSL_CERT_FILE: authority });
    const opened = server.opened + 1;
    const bodies = Array.from({ length: 50 }, (_, index) => String(index));
    const answers = bodies.map((body) => ask(via, server.url, { method: 'POST', body: Buffer.from(body) }));
    expect(await Promise.all(answers)).toEqual(bodies);
    expect(server.opened).toBe(opened);
  });

  test('sends all headers over HTTP/2 except connection headers', async () => {
    const seen: Record<string, unknown>[] = [];
    const server = await kept(
      http2WebServer(files, (request, response) => {
        seen.push({ ...request.headers, method: request.method });
        response.setHeader('x-a', ['1', '2']);
        response.end('hi');
      }),
    );
    const headers = [
      { name: 'X-U', value: '\u00e9' },
      { name: 'Connection', value: 'close' },
      { name: 'Host', value: 'forged.example' },
    ];
    const answer = await client({ SSL_CERT_FILE: authority }).send(
      get(`${server.url}/p?q`, { headers }),
      NEVER,
    );
    expect(await text(answer)).toBe('hi');
    expect(answer.fields.filter(({ name }) => name.startsWith(':') || name === 'x-a')).toEqual([
      { name: 'x-a', value: '1' },
      { name: 'x-a', value: '2' },
    ]);
    expect(seen).toMatchObject([
      { method: 'GET', ':path': '/p?q', ':authority': 'forged.example', accept: '*/*' },
    ]);
    expect(seen[0]).not.toHaveProperty('connection');
  });

  test('applies back-pressure to an HTTP/2 body', async () => {
    let written = 0;
    const server = await kept(
      http2WebServer(files, (_, response) => {
        const more = () => {
          do written += 64 * 1024;
          while (written < 256 * 1024 * 1024 && response.write(Buffer.alloc(64 * 1024)));
        };
        response.on('drain', more);
        more();
      }),
    );
    const answer = await client({ SSL_CERT_FILE: authority }).send(get(server.url), NEVER);
    await waitFor('the server to stop', async () => {
      const before = written;
      await new Promise((resolve) => setTimeout(resolve, 100));
      return before === written;
    });
    expect(written).toBeLessThan(32 * 1024 * 1024);
    answer.cancel();
  });

  test('ends an aborted HTTP/2 request and serves the next one', async () => {
    const open = new Set<unknown>();
    const server = await kept(
      http2WebServer(files, (request, response) => {
        if (request.url === '/hi') {
          response.end('hi');
          return;
        }
        open.add(response);
        response.on('close', () => open.delete(response));
        if (request.url === '/begun') response.write('begun');
      }),
    );
    const via = client({ SSL_CERT_FILE: authority });
    const [first, second] = [new AbortController(), new AbortController()];
    const hung = via.send(get(`${server.url}/hung`), first.signal);
    const begun = await via.send(get(`${server.url}/begun`), second.signal);
    await waitFor('both requests', () => open.size === 2);
    first.abort(new Error('not wanted'));
    second.abort(new Error('not wanted'));
    await expect(hung).rejects.toThrow('not wanted');
    await expect(text(begun)).rejects.toThrow('not wanted');
    await waitFor('the end of both', () => open.size === 0);
    expect(await ask(via, `${server.url}/hi`)).toBe('hi');
  });

  test('repeats any request that an HTTP/2 server refused', async () => {
    let refused = 0;
    const server = await kept(
      http2WebServer(files, (request, response) => {
        const { stream } = request as unknown as Http2ServerRequest;
        if (refused++ === 0) stream.close(constants.NGHTTP2_REFUSED_STREAM);
        else response.end('hi');
      }),
    );
    const via = client({ SSL_CERT_FILE: authority });
    expect(await ask(via, server.url, { method: 'POST', body: Buffer.from('x') })).toBe('hi');
    expect(refused).toBe(2);
  });

  test('opens another HTTP/2 connection when one is full', async () => {
    let waiting = 0;
    const server = await kept(
      http2WebServer(files, () => {
        waiting++;
      }),
    );
    const via = client({ SSL_CERT_FILE: authority });
    const requests = new AbortController();
    setMaxListeners(0, requests.signal);
    const asked = Array.from({ length: 120 }, () => via.send(get(server.url), requests.signal));
    for (const one of asked) one.catch(() => {});
    await waitFor('all requests', () => waiting === 120);
    expect(server.opened).toBe(2);
    requests.abort(new Error('enough'));
    await Promise.allSettled(asked);
  });

  test('tunnels through a proxy, which sees only the host name', async () => {
    const server = await kept(secureWebServer(files, echo));
    const proxy = await kept(proxyServer());
    const env = { SSL_CERT_FILE: authority, HTTPS_PROXY: `http://u:p@127.0.0.1:${proxy.port}` };
    expect(await version(server, env)).toBe('1.1');
    expect(proxy.seen).toEqual([
      { line: `CONNECT 127.0.0.1:${server.port}`, authorization: `Basic ${btoa('u:p')}` },
    ]);
  });

  test('reports a proxy that refuses, is silent or sends an invalid response', async () => {
    const answers = ['HTTP/1.1 407 No\r\n\r\n', 'nonsense\r\n\r\n', `HTTP/1.1 200 ${'x'.repeat(20_000)}`];
    for (const answer of answers) {
      const proxy = await kept(silentServer());
      const asked = client({ HTTPS_PROXY: proxy.url }).send(get('https://a.invalid/'), NEVER);
      asked.catch(() => {});
      await waitFor('a connection', () => proxy.connections.size > 0);
      for (const socket of proxy.connections) socket.write(answer);
      await expect(asked).rejects.toThrow('the proxy');
      await waitFor('the end of the connection', () => proxy.connections.size === 0);
    }
  });
});
