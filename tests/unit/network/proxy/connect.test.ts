import { once } from 'node:events';
import { type AddressInfo, connect, createServer as createTcpServer } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import { closeFixtures, exchange, openFixture, openWebServer } from './proxy-fixture.ts';

afterEach(closeFixtures);

const LOOPBACK = { '127.0.0.1': 'allow' } as const;

describe('CONNECT', () => {
  const connectTo = (authority: string, authorization: string) =>
    `CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n${authorization}\r\n\r\n`;

  test('connects both sides, including data sent ahead', async () => {
    const web = await openWebServer();
    const fixture = await openFixture({ domains: LOOPBACK });
    const inner = 'GET /in HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n';
    const text = await exchange(fixture.httpPort, [
      connectTo(`127.0.0.1:${web.port}`, fixture.authorization) + inner,
    ]);
    expect(text).toMatch(/^HTTP\/1\.1 200 OK\r\n\r\nHTTP\/1\.1 200 OK\r\n.*from upstream$/s);
    expect(web.received).toMatchObject([{ url: '/in' }]);
    expect(fixture.decisions).toMatchObject([
      { protocol: 'https_connect', method: 'CONNECT', decision: 'allow' },
    ]);
  });

  test.each([
    ['bad.test:443', 'blocked-by-denylist', 'Domain denied by the sandbox policy.'],
    ['nope.test:443', 'blocked-by-allowlist', 'Domain not in allowlist.'],
    ['127.0.0.2:443', 'blocked-by-allowlist', 'Sandbox policy blocks local/private network addresses.'],
  ])('blocks %s', async (authority, proxyError, message) => {
    const fixture = await openFixture({ domains: { 'bad.test': 'deny' } });
    const text = await exchange(fixture.httpPort, [connectTo(authority, fixture.authorization)]);
    expect(text).toMatch(new RegExp(`^HTTP/1\\.1 403 .*x-proxy-error: ${proxyError}\r\n.*${message}$`, 's'));
  });

  test('rejects tunnels in limited mode', async () => {
    const fixture = await openFixture({ domains: LOOPBACK, mode: 'limited' });
    const text = await exchange(fixture.httpPort, [connectTo('127.0.0.1:443', fixture.authorization)]);
    expect(text).toContain('x-proxy-error: blocked-by-mitm-required\r\n');
    expect(fixture.decisions).toMatchObject([
      { decision: 'allow' },
      { scope: 'non_domain', reason: 'mitm_required' },
    ]);
  });

  test('returns 502 for an unreachable host', async () => {
    const fixture = await openFixture({ domains: LOOPBACK });
    expect(await exchange(fixture.httpPort, [connectTo('127.0.0.1:1', fixture.authorization)])).toMatch(
      /^HTTP\/1\.1 502 /,
    );
  });

  test.each(['127.0.0.1', 'a@127.0.0.1:1', '127.0.0.1:0', '/x', ':443'])(
    'rejects the target %s',
    async (authority) => {
      const fixture = await openFixture({ domains: LOOPBACK });
      const text = await exchange(fixture.httpPort, [connectTo(authority, fixture.authorization)]);
      expect(text).toMatch(/^HTTP\/1\.1 400 /);
      expect(fixture.decisions).toEqual([]);
    },
  );

  test('lets each side close by itself and still receive data', async () => {
    const echo = createTcpServer({ allowHalfOpen: true }, (socket) => {
      let text = '';
      socket.on('data', (data) => {
        text += data;
      });
      socket.on('end', () => socket.end(`got ${text}`));
    });
    echo.listen(0, '127.0.0.1');
    await once(echo, 'listening');
    const fixture = await openFixture({ domains: LOOPBACK });
    const socket = connect({ port: fixture.httpPort, host: '127.0.0.1', allowHalfOpen: true });
    socket.write(connectTo(`127.0.0.1:${(echo.address() as AddressInfo).port}`, fixture.authorization));
    await once(socket, 'data');
    socket.end('all of it');
    const [data] = await once(socket, 'data');
    expect(String(data)).toBe('got all of it');
    await once(socket, 'close');
    echo.close();
  });
});
