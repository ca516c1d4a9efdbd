import { once } from 'node:events';
import { type AddressInfo, connect, createServer as createTcpServer } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import { closeScenes, exchange, openScene, openWebServer } from './scene.ts';

afterEach(closeScenes);

const LOOPBACK = { '127.0.0.1': 'allow' } as const;

describe('CONNECT', () => {
  const connectTo = (authority: string, authorization: string) =>
    `CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n${authorization}\r\n\r\n`;

  test('joins both sides, with what was sent ahead', async () => {
    const web = await openWebServer();
    const scene = await openScene({ domains: LOOPBACK });
    const inner = 'GET /in HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n';
    const text = await exchange(scene.httpPort, [
      connectTo(`127.0.0.1:${web.port}`, scene.authorization) + inner,
    ]);
    expect(text).toMatch(/^HTTP\/1\.1 200 OK\r\n\r\nHTTP\/1\.1 200 OK\r\n.*from upstream$/s);
    expect(web.received).toMatchObject([{ url: '/in' }]);
    expect(scene.decisions).toMatchObject([
      { protocol: 'https_connect', method: 'CONNECT', decision: 'allow' },
    ]);
  });

  test.each([
    ['bad.test:443', 'blocked-by-denylist', 'Domain denied by the sandbox policy.'],
    ['nope.test:443', 'blocked-by-allowlist', 'Domain not in allowlist.'],
    ['127.0.0.2:443', 'blocked-by-allowlist', 'Sandbox policy blocks local/private network addresses.'],
  ])('%s is blocked', async (authority, proxyError, message) => {
    const scene = await openScene({ domains: { 'bad.test': 'deny' } });
    const text = await exchange(scene.httpPort, [connectTo(authority, scene.authorization)]);
    expect(text).toMatch(new RegExp(`^HTTP/1\\.1 403 .*x-proxy-error: ${proxyError}\r\n.*${message}$`, 's'));
  });

  test('limited mode has no tunnels', async () => {
    const scene = await openScene({ domains: LOOPBACK, mode: 'limited' });
    const text = await exchange(scene.httpPort, [connectTo('127.0.0.1:443', scene.authorization)]);
    expect(text).toContain('x-proxy-error: blocked-by-mitm-required\r\n');
    expect(scene.decisions).toMatchObject([
      { decision: 'allow' },
      { scope: 'non_domain', reason: 'mitm_required' },
    ]);
  });

  test('what cannot be reached is a 502', async () => {
    const scene = await openScene({ domains: LOOPBACK });
    expect(await exchange(scene.httpPort, [connectTo('127.0.0.1:1', scene.authorization)])).toMatch(
      /^HTTP\/1\.1 502 /,
    );
  });

  test.each(['127.0.0.1', 'a@127.0.0.1:1', '127.0.0.1:0', '/x', ':443'])(
    '%s is no target',
    async (authority) => {
      const scene = await openScene({ domains: LOOPBACK });
      const text = await exchange(scene.httpPort, [connectTo(authority, scene.authorization)]);
      expect(text).toMatch(/^HTTP\/1\.1 400 /);
      expect(scene.decisions).toEqual([]);
    },
  );

  test('each side may end on its own and still gets what the other sends', async () => {
    const echo = createTcpServer({ allowHalfOpen: true }, (socket) => {
      let text = '';
      socket.on('data', (data) => {
        text += data;
      });
      socket.on('end', () => socket.end(`got ${text}`));
    });
    echo.listen(0, '127.0.0.1');
    await once(echo, 'listening');
    const scene = await openScene({ domains: LOOPBACK });
    const socket = connect({ port: scene.httpPort, host: '127.0.0.1', allowHalfOpen: true });
    socket.write(connectTo(`127.0.0.1:${(echo.address() as AddressInfo).port}`, scene.authorization));
    await once(socket, 'data');
    socket.end('all of it');
    const [data] = await once(socket, 'data');
    expect(String(data)).toBe('got all of it');
    await once(socket, 'close');
    echo.close();
  });
});
