import { once } from 'node:events';
import { type AddressInfo, connect, createServer as createTcpServer } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import { FairShares } from '../../../../src/base/fair-shares.ts';
import {
  MAX_CONNECTIONS,
  MAX_HEADER_BYTES,
  MAX_REQUESTS_AHEAD,
} from '../../../../src/network/proxy/limits.ts';
import { ProxyResources } from '../../../../src/network/proxy/proxy-resources.ts';
import { waitFor } from '../../../support/wait-for.ts';
import {
  ask,
  blockOf,
  closeFixtures,
  exchange,
  get,
  Names,
  openFixture,
  openWebServer,
} from './proxy-fixture.ts';

afterEach(closeFixtures);

const LOOPBACK = { '127.0.0.1': 'allow' } as const;

/** Header names in their order, with their values. */
function headersOf(rawHeaders: readonly string[]): Record<string, string> {
  return Object.fromEntries(
    rawHeaders.flatMap((name, index) =>
      index % 2 === 0 ? [[name.toLowerCase(), rawHeaders[index + 1] ?? '']] : [],
    ),
  );
}

describe('forwarding', () => {
  test('removes hop-by-hop headers from a request', async () => {
    const web = await openWebServer();
    const fixture = await openFixture({ domains: LOOPBACK });
    const answer = await ask(
      fixture,
      `GET http://127.0.0.1:${web.port}/a?b=c HTTP/1.1
      Host: 127.0.0.1:${web.port}
      Proxy-Connection: keep-alive
      Connection: x-foo
      X-Foo: 1
      TE: trailers
      Keep-Alive: timeout=5
      Upgrade: h2c
      X-Keep: 2
      X-Keep: 3`,
    );
    expect(answer).toMatch(/^HTTP\/1\.1 200 OK\r\n.*\r\n\r\nfrom upstream$/s);
    const [received] = web.received;
    expect(received).toMatchObject({ method: 'GET', url: '/a?b=c' });
    const headers = headersOf(received?.rawHeaders ?? []);
    expect(Object.keys(headers).sort()).toEqual(['connection', 'host', 'via', 'x-keep']);
    expect(headers).toMatchObject({ host: `127.0.0.1:${web.port}`, connection: 'close' });
    expect(fixture.decisions).toEqual([
      {
        timestamp: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
        scope: 'domain',
        decision: 'allow',
        source: 'baseline_policy',
        reason: 'allow',
        protocol: 'http',
        host: '127.0.0.1',
        port: web.port,
        method: 'GET',
        client: expect.stringMatching(/^127\.0\.0\.1:\d+$/),
        policyOverride: false,
      },
    ]);
  });

  test.each([
    ['with its length', 'Content-Length: 3', 'abc', 'content-length'],
    ['in chunks', 'Transfer-Encoding: chunked', '3\r\nabc\r\n0\r\n\r\n', 'transfer-encoding'],
  ])('forwards a body %s', async (_name, header, body, kept) => {
    const web = await openWebServer();
    const fixture = await openFixture({ domains: LOOPBACK });
    await ask(
      fixture,
      `POST http://127.0.0.1:${web.port}/ HTTP/1.1\nHost: 127.0.0.1:${web.port}\n${header}`,
      body,
    );
    expect(web.received[0]).toMatchObject({ method: 'POST', body: 'abc' });
    expect(headersOf(web.received[0]?.rawHeaders ?? [])).toHaveProperty(kept);
  });

  test('adds no body to a request without one', async () => {
    const web = await openWebServer();
    const fixture = await openFixture({ domains: LOOPBACK });
    await ask(fixture, `POST http://127.0.0.1:${web.port}/ HTTP/1.1\nHost: 127.0.0.1:${web.port}`);
    const headers = headersOf(web.received[0]?.rawHeaders ?? []);
    expect(headers).not.toHaveProperty('transfer-encoding');
    expect(headers).not.toHaveProperty('content-length');
  });

  test('removes hop-by-hop headers from a response', async () => {
    const headers = [
      'Connection',
      'keep-alive, x-drop',
      'X-Drop',
      '1',
      'Proxy-Authenticate',
      'z',
      'X-Two',
      'a',
      'X-Two',
      'b',
    ];
    const web = await openWebServer(() => ({ status: 404, headers, body: 'gone' }));
    const fixture = await openFixture({ domains: LOOPBACK });
    const answer = await get(fixture, `127.0.0.1:${web.port}`);
    expect(answer).toMatch(/^HTTP\/1\.1 404 Not Found\r\n/);
    expect(answer).toContain('X-Two: a\r\nX-Two: b\r\n');
    expect(answer).not.toMatch(/x-drop|proxy-authenticate/i);
  });

  test('uses the Host header of a request in origin form, and the target without that header', async () => {
    const web = await openWebServer();
    const fixture = await openFixture({ domains: LOOPBACK });
    await ask(fixture, `GET /o HTTP/1.1\nHost: 127.0.0.1:${web.port}`);
    await ask(fixture, `GET http://u:p@127.0.0.1:${web.port}?q HTTP/1.0`);
    await ask(fixture, `OPTIONS * HTTP/1.1\nHost: 127.0.0.1:${web.port}`);
    expect(web.received.map(({ url }) => url)).toEqual(['/o', '/?q', '*']);
    expect(headersOf(web.received[1]?.rawHeaders ?? [])).toMatchObject({ host: `127.0.0.1:${web.port}` });
    expect(headersOf(web.received[1]?.rawHeaders ?? [])).not.toHaveProperty('authorization');
  });

  test('serves the requests of a connection in order, each with its own decision', async () => {
    const web = await openWebServer();
    const fixture = await openFixture({ domains: { ...LOOPBACK, 'bad.test': 'deny' } });
    const one = (authority: string, more = '') =>
      `GET http://${authority}/ HTTP/1.1\r\nHost: ${authority}\r\n${fixture.authorization}\r\n${more}\r\n`;
    const authority = `127.0.0.1:${web.port}`;
    const text = await exchange(fixture.httpPort, [
      one(authority) + one('bad.test') + one(authority, 'Connection: close\r\n'),
    ]);
    expect(text.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 200', 'HTTP/1.1 403', 'HTTP/1.1 200']);
    expect(fixture.decisions.map(({ decision }) => decision)).toEqual(['allow', 'deny', 'allow']);
    expect(text).not.toMatch(/keep-alive/i);
  });

  test('looks up a name once and connects to that address', async () => {
    const web = await openWebServer();
    const names = new Names({ 'a.test': ['127.0.0.1'] });
    const fixture = await openFixture({ domains: { '*': 'allow' }, allowLocalBinding: true }, { names });
    expect(await get(fixture, `a.test:${web.port}`)).toContain('from upstream');
    expect(names.asked).toEqual(['a.test']);
    expect(headersOf(web.received[0]?.rawHeaders ?? [])).toMatchObject({ host: `a.test:${web.port}` });
  });

  test('tries the next address when one does not accept', async () => {
    const web = await openWebServer();
    const names = new Names({ 'a.test': ['127.0.0.3', '127.0.0.1'] });
    const fixture = await openFixture({ domains: { '*': 'allow' }, allowLocalBinding: true }, { names });
    expect(await get(fixture, `a.test:${web.port}`)).toContain('from upstream');
  });

  test('forwards a large response to a slow reader', async () => {
    const body = 'x'.repeat(8 * 1024 * 1024);
    const web = await openWebServer(() => ({ body }));
    const fixture = await openFixture({ domains: LOOPBACK });
    const text = await get(fixture, `127.0.0.1:${web.port}`);
    expect(text.endsWith(body)).toBe(true);
  });

  test('returns 502 when a web server is unreachable or sends an invalid response', async () => {
    const invalid = createTcpServer((socket) => socket.end('what?\r\n\r\n'));
    invalid.listen(0, '127.0.0.1');
    await once(invalid, 'listening');
    const fixture = await openFixture({ domains: LOOPBACK });
    for (const port of [1, (invalid.address() as AddressInfo).port]) {
      expect(await get(fixture, `127.0.0.1:${port}`)).toMatch(/^HTTP\/1\.1 502 .*upstream failure$/s);
    }
    invalid.close();
  });

  test.each([
    ['characters that no status has', 'HTTP/1.1 200 O\x01K\r\nContent-Length: 0\r\n\r\n'],
    ['a status that is none', 'HTTP/1.1 099 X\r\nContent-Length: 0\r\n\r\n'],
    ['another protocol that nobody asked for', 'HTTP/1.1 101 X\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n'],
  ])('returns 502 for a response with %s', async (_name, answer) => {
    const strange = createTcpServer((socket) => {
      socket.on('error', () => {});
      socket.once('data', () => socket.end(answer, 'latin1'));
    });
    strange.listen(0, '127.0.0.1');
    await once(strange, 'listening');
    const fixture = await openFixture({ domains: LOOPBACK });
    const { port } = strange.address() as AddressInfo;
    expect(await get(fixture, `127.0.0.1:${port}`)).toMatch(/^HTTP\/1\.1 502 .*upstream failure$/s);
    strange.close();
  });

  test('keeps the bytes of headers in requests and responses, with and without a body', async () => {
    const heads: string[] = [];
    const server = createTcpServer((socket) => {
      socket.once('data', (data) => {
        heads.push(data.toString());
        socket.end('HTTP/1.1 200 Schön\r\nX-Name: café\r\n\r\nbody');
      });
    });
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    const fixture = await openFixture({ domains: LOOPBACK });
    const authority = `127.0.0.1:${(server.address() as AddressInfo).port}`;
    for (const method of ['GET', 'HEAD', 'POST']) {
      const head = `${method} http://${authority}/ HTTP/1.1\nHost: ${authority}\nX-Name: café\nContent-Length: 4`;
      const answer = Buffer.from(await ask(fixture, head, 'body'), 'latin1').toString();
      expect(answer).toContain('HTTP/1.1 200 Schön\r\nX-Name: café\r\n');
    }
    expect(heads.map((head) => head.includes('X-Name: café\r\n'))).toEqual([true, true, true]);
    server.close();
  });

  test('closes the connection when a response breaks off', async () => {
    const half = createTcpServer((socket) => {
      socket.once('data', () => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf'));
    });
    half.listen(0, '127.0.0.1');
    await once(half, 'listening');
    const fixture = await openFixture({ domains: LOOPBACK });
    const text = await get(fixture, `127.0.0.1:${(half.address() as AddressInfo).port}`);
    expect(text).toMatch(/^HTTP\/1\.1 200 OK.*half$/s);
    half.close();
  });
});

describe('refusals', () => {
  test.each([
    ['bad.test', 80, 'denied', 'blocked-by-denylist', 'Domain denied by the sandbox policy.'],
    ['nope.test', 80, 'not_allowed', 'blocked-by-allowlist', 'Domain not in allowlist.'],
    [
      '127.0.0.2:7',
      7,
      'not_allowed_local',
      'blocked-by-allowlist',
      'Sandbox policy blocks local/private network addresses.',
    ],
    [
      'unknown.test',
      80,
      'not_allowed_local',
      'blocked-by-allowlist',
      'Sandbox policy blocks local/private network addresses.',
    ],
  ])('blocks %s', async (authority, port, reason, proxyError, message) => {
    const fixture = await openFixture({ domains: { 'bad.test': 'deny', 'unknown.test': 'allow' } });
    const answer = await get(fixture, authority);
    expect(answer).toMatch(/^HTTP\/1\.1 403 Forbidden\r\n/);
    expect(answer).toContain(`x-proxy-error: ${proxyError}\r\n`);
    expect(answer).toContain('content-type: application/json\r\n');
    const host = authority.replace(/:.*/, '');
    const about = { host, reason, decision: 'deny', source: 'baseline_policy', protocol: 'http', port };
    expect(blockOf(answer)).toEqual({ status: 'blocked', ...about, message });
    expect(fixture.decisions).toMatchObject([{ scope: 'domain', ...about, policyOverride: false }]);
  });

  test.each(['POST', 'PUT', 'TRACE', 'DELETE'])(
    'blocks %s in limited mode and reports it twice',
    async (method) => {
      const fixture = await openFixture({ domains: LOOPBACK, mode: 'limited' });
      const answer = await ask(fixture, `${method} http://127.0.0.1:9/ HTTP/1.1\nHost: 127.0.0.1:9`);
      expect(answer).toContain('x-proxy-error: blocked-by-method-policy\r\n');
      expect(blockOf(answer)).toMatchObject({ reason: 'method_not_allowed', source: 'mode_guard' });
      expect(fixture.decisions).toMatchObject([
        { scope: 'domain', decision: 'allow', source: 'baseline_policy' },
        { scope: 'non_domain', decision: 'deny', source: 'mode_guard', reason: 'method_not_allowed' },
      ]);
    },
  );

  test.each(['GET', 'HEAD', 'OPTIONS'])('allows %s in limited mode', async (method) => {
    const web = await openWebServer();
    const fixture = await openFixture({ domains: LOOPBACK, mode: 'limited' });
    const authority = `127.0.0.1:${web.port}`;
    expect(await ask(fixture, `${method} http://${authority}/ HTTP/1.1\nHost: ${authority}`)).toMatch(
      /^HTTP\/1\.1 200 /,
    );
  });

  test.each([
    [
      'another host',
      'GET http://127.0.0.1:9/ HTTP/1.1\nHost: other.test',
      'Host header does not match request target',
    ],
    [
      'another port',
      'GET http://127.0.0.1:9/ HTTP/1.1\nHost: 127.0.0.1:8',
      'Host header does not match request target',
    ],
    [
      'the default port',
      'GET http://127.0.0.1:9/ HTTP/1.1\nHost: 127.0.0.1',
      'Host header does not match request target',
    ],
    ['two', 'GET http://127.0.0.1:9/ HTTP/1.1\nHost: 127.0.0.1:9\nHost: other.test', 'multiple Host headers'],
    [
      'two that agree',
      'GET http://127.0.0.1:9/ HTTP/1.1\nHost: 127.0.0.1:9\nhost: 127.0.0.1:9',
      'multiple Host headers',
    ],
    ['nonsense', 'GET /x HTTP/1.1\nHost: a b', 'invalid Host header'],
    ['none where it is needed', 'GET /x HTTP/1.0', 'missing host'],
  ])('rejects a Host header with %s', async (_name, head, message) => {
    const fixture = await openFixture({ domains: LOOPBACK });
    expect(await ask(fixture, head)).toMatch(new RegExp(`^HTTP/1\\.1 400 .*${message}$`, 's'));
    expect(fixture.decisions).toEqual([]);
  });

  test.each(['https://127.0.0.1:9/', 'ftp://127.0.0.1:9/', 'gopher://x/'])(
    'does not forward %s',
    async (url) => {
      const fixture = await openFixture({ domains: LOOPBACK });
      expect(await ask(fixture, `GET ${url} HTTP/1.1`)).toMatch(/^HTTP\/1\.1 400 /);
    },
  );

  test('does not reach unix sockets', async () => {
    const fixture = await openFixture({ domains: LOOPBACK, dangerouslyAllowAllUnixSockets: true });
    const answer = await ask(
      fixture,
      'GET http://127.0.0.1:9/ HTTP/1.1\nHost: 127.0.0.1:9\nX-Unix-Socket: /run/x.sock',
    );
    expect(answer).toMatch(/^HTTP\/1\.1 501 .*unix sockets unsupported$/s);
    expect(fixture.decisions).toMatchObject([
      {
        scope: 'non_domain',
        decision: 'deny',
        source: 'proxy_state',
        reason: 'unix_socket_unsupported',
        host: 'unix-socket',
        port: 0,
      },
    ]);
  });
});

describe('limits', () => {
  test('rejects a request head that is too large', async () => {
    const fixture = await openFixture({ domains: LOOPBACK });
    const answer = await ask(fixture, `GET http://127.0.0.1:9/ HTTP/1.1\nX: ${'x'.repeat(MAX_HEADER_BYTES)}`);
    expect(answer).toMatch(/^HTTP\/1\.1 431 /);
    expect(fixture.decisions).toEqual([]);
  });

  test('returns 502 for a response head that is too large', async () => {
    const web = await openWebServer(() => ({ headers: ['X', 'x'.repeat(MAX_HEADER_BYTES)] }));
    const fixture = await openFixture({ domains: LOOPBACK });
    expect(await get(fixture, `127.0.0.1:${web.port}`)).toMatch(/^HTTP\/1\.1 502 /);
  });

  test('disconnects a client that pipelines too many requests', async () => {
    const fixture = await openFixture({ domains: {} }, { answer: () => new Promise(() => {}) });
    const one = `GET http://a.test/ HTTP/1.1\r\nHost: a.test\r\n${fixture.authorization}\r\n\r\n`;
    expect(await exchange(fixture.httpPort, [one.repeat(MAX_REQUESTS_AHEAD + 1)])).toBe('');
    expect(fixture.policyRequests).toHaveLength(1);
  });

  test('closes connections beyond the limit', async () => {
    const fixture = await openFixture();
    const sockets = Array.from({ length: MAX_CONNECTIONS }, () => connect(fixture.httpPort, '127.0.0.1'));
    await Promise.all(sockets.map((socket) => once(socket, 'connect')));
    expect(await exchange(fixture.httpPort, ['GET / HTTP/1.1\r\n\r\n'])).toBe('');
    sockets[0]?.destroy();
    await waitFor('a free slot for a connection', async () =>
      (await ask(fixture, 'GET / HTTP/1.0')).startsWith('HTTP/1.1 400'),
    );
    for (const socket of sockets) socket.destroy();
  });

  test('closes connections beyond the share of descriptors of its session, and serves other sessions', async () => {
    const host = new ProxyResources(undefined, {}, new FairShares(8));
    const owner = {};
    const [first, second] = [await openFixture({}, { host, owner }), await openFixture({}, { host, owner })];
    const other = await openFixture({}, { host });
    const sockets = [first, second].map(({ httpPort }) => connect(httpPort, '127.0.0.1'));
    await waitFor('both to be counted', () => host.descriptors.free === 4);
    expect(await exchange(first.httpPort, ['GET / HTTP/1.1\r\n\r\n'])).toBe('');
    expect(await ask(other, 'GET / HTTP/1.0')).toMatch(/^HTTP\/1\.1 400/);
    for (const socket of sockets) socket.destroy();
    await waitFor('the descriptors to be returned', () => host.descriptors.free === 8);
    expect(await ask(first, 'GET / HTTP/1.0')).toMatch(/^HTTP\/1\.1 400/);
  });

  test('disconnects from the web server when the client disconnects', async () => {
    let gone = false;
    const silent = createTcpServer((socket) => {
      socket.on('error', () => {});
      socket.resume();
      socket.on('close', () => {
        gone = true;
      });
    });
    silent.listen(0, '127.0.0.1');
    await once(silent, 'listening');
    const fixture = await openFixture({ domains: LOOPBACK });
    const { port } = silent.address() as AddressInfo;
    const socket = connect(fixture.httpPort, '127.0.0.1');
    const connected = once(silent, 'connection');
    socket.write(
      `GET http://127.0.0.1:${port}/ HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n${fixture.authorization}\r\n\r\n`,
    );
    await connected;
    socket.destroy();
    await waitFor('the connection to the web server to end', () => gone);
    silent.close();
  });
});

test('rejects a target with non-ASCII bytes', async () => {
  const web = await openWebServer();
  const fixture = await openFixture({ domains: LOOPBACK });
  const head = `GET http://127.0.0.1:${web.port}/\u00e9 HTTP/1.1\r\nHost: 127.0.0.1:${web.port}\r\n`;
  const bytes = Buffer.from(`${head}Connection: close\r\n${fixture.authorization}\r\n\r\n`, 'latin1');
  expect(await exchange(fixture.httpPort, [bytes])).toMatch(/^HTTP\/1\.1 400 /);
  expect([fixture.decisions, web.received]).toEqual([[], []]);
});

test('loses only the connection when the receiver of decisions throws', async () => {
  const fixture = await openFixture({ domains: LOOPBACK });
  fixture.decisions.push = () => {
    throw new Error('full');
  };
  expect(await get(fixture, 'a.test')).toBe('');
  const tunnel = `CONNECT a.test:1 HTTP/1.1\r\n${fixture.authorization}\r\n\r\n`;
  expect(await exchange(fixture.httpPort, [tunnel])).toBe('');
});
