import { execFile } from 'node:child_process';
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { Duplex } from 'node:stream';
import { connect as secureConnect } from 'node:tls';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest';
import { groupedHeaders } from '../../../../../src/network/proxy/http-message.ts';
import { Interception } from '../../../../../src/network/proxy/interception/interception.ts';
import { TLS_HANDSHAKE_MS } from '../../../../../src/network/proxy/limits.ts';
import { CredentialMasks } from '../../../../../src/network/proxy/masking/credential-masks.ts';
import { waitFor } from '../../../../support/wait-for.ts';
import {
  CREDENTIAL,
  EchoServers,
  type MaskingFixture,
  type MaskingFixtureOptions,
  openMaskingFixture,
} from './masking-fixture.ts';

const run = promisify(execFile);

let servers: EchoServers;
const fixtures: MaskingFixture[] = [];

async function open(
  changes: Parameters<typeof openMaskingFixture>[1] = {},
  options: MaskingFixtureOptions = {},
): Promise<MaskingFixture & { readonly mask: string; readonly bearer: readonly string[] }> {
  const fixture = await openMaskingFixture(servers, changes, options);
  fixtures.push(fixture);
  const mask = fixture.env.ACME_KEY ?? '';
  return { ...fixture, mask, bearer: ['-H', `Authorization: Bearer ${mask}`] };
}

beforeAll(async () => {
  servers = await new EchoServers().listen();
});
beforeEach(() => {
  servers.received.length = 0;
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await Promise.all(fixtures.splice(0).map((fixture) => fixture.close()));
});
afterAll(() => servers.close());

describe('at its destination', () => {
  test('a credential arrives that the program has never seen', async () => {
    const { mask, env, bearer, curl, decisions } = await open();
    expect(mask).toMatch(/^acme_[a-z]{24}$/);
    expect(JSON.stringify(env)).not.toContain(CREDENTIAL);
    expect(await curl(...bearer, `${servers.secureUrl}/v1/x?y=1`)).toBe(`Bearer ${CREDENTIAL} - \n`);
    expect(servers.received[0]?.line).toBe('GET /v1/x?y=1');
    expect(decisions).toMatchObject([{ decision: 'allow', protocol: 'https_connect', host: '127.0.0.1' }]);
    expect(JSON.stringify(decisions)).not.toContain(CREDENTIAL);
  });

  test('a credential arrives with each method of its provider', async () => {
    const { mask, curl } = await open();
    const url = `${servers.secureUrl}/v1`;
    const basic = Buffer.from(`me:${CREDENTIAL}`).toString('base64');
    expect(await curl('-u', `me:${mask}`, url)).toBe(`Basic ${basic} - \n`);
    expect(await curl('-H', `x-key: K ${mask}`, url)).toBe(`- K ${CREDENTIAL} \n`);
  });

  test('a credential arrives over SOCKS5, in a plain local request and in a local tunnel', async () => {
    const { bearer, curl, env } = await open();
    const expected = `Bearer ${CREDENTIAL} - \n`;
    const socks = ['--proxy', env.ALL_PROXY ?? ''];
    expect(await curl(...socks, ...bearer, `${servers.secureUrl}/v1/x`)).toBe(expected);
    expect(await curl(...socks, ...bearer, `${servers.plainUrl}/v1/x`)).toBe(expected);
    expect(await curl(...bearer, `${servers.plainUrl}/v1/x`)).toBe(expected);
    expect(await curl('--proxytunnel', ...bearer, `${servers.plainUrl}/v1/x`)).toBe(expected);
  });

  test('serves requests in turn on one connection, with known and unknown body lengths', async () => {
    const { bearer, curl } = await open();
    const before = servers.connections;
    const url = `${servers.secureUrl}/v1/x`;
    const again = ['--next', '-sS', ...bearer, '-H', 'Transfer-Encoding: chunked', '-d', 'second', url];
    const large = 'x'.repeat(100_000);
    const output = await run('curl', ['-sS', ...bearer, '-d', 'first', url, ...again], {
      env: fixtures[0]!.env,
    });
    expect(output.stdout).toBe(`Bearer ${CREDENTIAL} - first\nBearer ${CREDENTIAL} - second\n`);
    expect(servers.connections - before).toBe(1);
    expect(await curl(...bearer, '-H', 'Expect: 100-continue', '-d', large, url)).toContain(large);
  });

  test('is trusted by a node program through its environment', async () => {
    const { env } = await open();
    const script = `
      const tunnel = require('http').request({ method: 'CONNECT', path: process.argv[1].split('/')[2],
        port: new URL(process.env.HTTP_PROXY).port, headers: { 'proxy-authorization':
        'Basic ' + btoa(new URL(process.env.HTTP_PROXY).username + ':' + new URL(process.env.HTTP_PROXY).password) } });
      tunnel.on('connect', (_, socket) => require('https').get(process.argv[1], { socket, agent: false,
        headers: { authorization: 'Bearer ' + process.env.ACME_KEY } }, (answer) => answer.pipe(process.stdout)));
      tunnel.end();`;
    // Node 22.23 would send the request of the program through the proxy a second time.
    const own = { ...env, NODE_USE_ENV_PROXY: '' };
    const { stdout } = await run(process.execPath, ['-e', script, `${servers.secureUrl}/v1/x`], { env: own });
    expect(stdout).toBe(`Bearer ${CREDENTIAL} - \n`);
  });

  test('opens a websocket with the credential and passes the rest through', async () => {
    servers.secure.once('upgrade', (request, socket: Socket) => {
      const head = [
        'HTTP/1.1 101 Switching Protocols',
        'Upgrade: websocket',
        'Connection: Upgrade',
        'X-Name: café',
      ];
      socket.write(`${head.join('\r\n')}\r\n\r\n`);
      socket.write(`${request.headers.authorization}|`);
      socket.on('data', (data) => socket.end(data));
    });
    const { mask, env } = await open();
    const { stdout } = await upgraded(env, servers.secureUrl, mask);
    expect(stdout).toContain('HTTP/1.1 101 Switching Protocols\r\nX-Name: café\r\n');
    expect(stdout).toContain(`Bearer ${CREDENTIAL}|echo ${mask}`);
  });

  test('forwards the response of a web server that refuses an upgrade', async () => {
    const { mask, env } = await open();
    const { stdout } = await upgraded(env, servers.secureUrl, mask);
    expect(stdout).toMatch(/^HTTP\/1\.1 200 OK[\s\S]*Bearer acme_abcdefghijklmnopqrstuvwx - \n/);
  });
});

/** Requests a websocket and then sends the mask. */
function upgraded(
  env: Record<string, string>,
  url: string,
  mask: string,
): Promise<{ readonly stdout: string }> {
  return insideTunnel(
    env,
    url,
    ['GET /v1/ws HTTP/1.1', 'Connection: Upgrade', 'Upgrade: websocket', `Authorization: Bearer ${mask}`],
    `echo ${mask}`,
  );
}

/** A program that sends a TLS request through a tunnel, and more after it received a `|`; returns everything it receives. */
function insideTunnel(
  env: Record<string, string>,
  url: string,
  [first = '', ...headers]: readonly string[],
  then: string,
): Promise<{ readonly stdout: string }> {
  const script = `
    const { username, password, port } = new URL(process.env.HTTP_PROXY);
    const [host, hostname, head, then] = process.argv.slice(1);
    const socket = require('net').connect(port, '127.0.0.1', () => socket.write('CONNECT ' + host + ' HTTP/1.1\\r\\n' +
      'Proxy-Authorization: Basic ' + btoa(username + ':' + password) + '\\r\\n\\r\\n'));
    socket.once('data', () => {
      const secure = require('tls').connect({ socket, host: hostname }, () => secure.write(head));
      let text = '';
      secure.on('data', (data) => {
        text += data;
        if (text.endsWith('|')) secure.write(then);
      });
      secure.on('end', () => { process.stdout.write(text); secure.destroy(); });
    });`;
  const { host, hostname } = new URL(url);
  const head = [first, `Host: ${host}`, ...headers, '', ''].join('\r\n');
  return run(process.execPath, ['-e', script, host, hostname, head, then], { env });
}

describe('elsewhere the mask arrives', () => {
  test.each([
    ['below another path', '/v2/x'],
    ['next to the path', '/v1x'],
    ['by a way round', '/v1/../v2'],
    ['by an encoded way round', '/v1/%2e%2e/v2'],
    ['by an encoded separator', '/v1/..%2fv2'],
    ['by a parameter', '/v1/..;/v2'],
    ['by a backslash', '/v1/..\\v2'],
  ])('%s', async (_name, path) => {
    const { mask, bearer, curl } = await open();
    expect(await curl('--path-as-is', ...bearer, `${servers.secureUrl}${path}`)).toBe(`Bearer ${mask} - \n`);
  });

  test('in other headers and schemes, in repeated headers, and in the body', async () => {
    const { mask, curl } = await open();
    const url = `${servers.secureUrl}/v1/x`;
    expect(await curl('-H', `Authorization: Token ${mask}`, url)).toBe(`Token ${mask} - \n`);
    expect(await curl('-H', `x-key: ${mask}`, url)).toBe(`- ${mask} \n`);
    await curl('-H', `x-other: ${mask}`, '-d', mask, url);
    const twice = ['-H', `x-key: K ${mask}`, '-H', `x-key: K ${mask}`];
    await curl(...twice, url);
    expect(JSON.stringify(servers.received)).not.toContain(CREDENTIAL);
    expect(servers.received[2]).toMatchObject({ body: mask, rawHeaders: expect.arrayContaining([mask]) });
  });

  test('in a TRACE request, whose response repeats it', async () => {
    const { mask, bearer, curl } = await open();
    expect(await curl('-X', 'TRACE', ...bearer, `${servers.secureUrl}/v1/x`)).toBe(`Bearer ${mask} - \n`);
  });

  test('from another program', async () => {
    const owner = await open();
    const other = await open();
    expect(other.mask).not.toBe(owner.mask);
    expect(await other.curl(...owner.bearer, `${servers.secureUrl}/v1/x`)).toBe(`Bearer ${owner.mask} - \n`);
  });

  test('and a host without a provider is not intercepted', async () => {
    const acme = { env: ['ACME_KEY'], patterns: ['acme_[a-z]{24}'], auth: [] };
    const { mask, bearer, curl } = await open({
      credentialProviders: { acme: { ...acme, url_prefixes: ['https://elsewhere.test'] } },
    });
    // The certificate is the web server's own.
    const output = await curl('--cacert', servers.authority.cert, ...bearer, `${servers.secureUrl}/v1/x`);
    expect(output).toBe(`Bearer ${mask} - \n`);
  });
});

describe('rejects', () => {
  test('a host with an untrusted certificate, without sending anything to it', async () => {
    vi.stubEnv('NODE_TLS_REJECT_UNAUTHORIZED', '0');
    const { bearer, curl } = await open({}, { serverEnv: {} });
    const output = await curl('-k', '-w', '%{http_code}', ...bearer, `${servers.secureUrl}/v1/x`);
    expect(output).toMatch(/^the certificate of the web server cannot be trusted: [A-Z_]+502$/);
    expect(servers.received).toEqual([]);
  });

  test.each([
    ['another host', ['-H', 'Host: other.test']],
    ['another port', ['-H', 'Host: 127.0.0.1']],
  ])('a request for %s than that of the connection', async (_name, header) => {
    const { bearer, curl } = await open();
    expect(await curl(...header, ...bearer, `${servers.secureUrl}/v1/x`)).toBe('host mismatch');
    expect(servers.received).toEqual([]);
  });

  test('a request that came through this proxy before', async () => {
    const { bearer, curl } = await open();
    await curl(...bearer, `${servers.secureUrl}/v1/x`);
    const { rawHeaders } = servers.received[0]!;
    const via = rawHeaders[rawHeaders.indexOf('Via') + 1] ?? '';
    expect(via).toMatch(/^1\.1 exec-server-/);
    const code = await curl('-H', `Via: ${via}`, '-w', '%{http_code}', `${servers.secureUrl}/v1/x`);
    expect(code).toBe('loop detected: the request came through this proxy before508');
  });

  test('other methods, upgrades and other protocols in limited mode', async () => {
    const { mask, bearer, curl, env, decisions } = await open({ mode: 'limited', enableSocks5: false });
    const url = `${servers.secureUrl}/v1/x`;
    expect(await curl(...bearer, url)).toBe(`Bearer ${CREDENTIAL} - \n`);
    expect(JSON.parse(await curl(...bearer, '-d', 'x', url))).toMatchObject({ reason: 'method_not_allowed' });
    expect((await upgraded(env, servers.secureUrl, mask)).stdout).toMatch(/^HTTP\/1\.1 403 /);
    await expect(curl('--proxytunnel', ...bearer, url.replace('https', 'http'))).rejects.toThrow();
    expect(decisions).toContainEqual(
      expect.objectContaining({ decision: 'deny', reason: 'method_not_allowed', method: 'POST' }),
    );
    expect(servers.received).toHaveLength(1);
  });
});

describe('connections', () => {
  test('pass an unknown protocol in which the host speaks first', async () => {
    const greeter = createServer((socket) => socket.end('hello\n')).listen(0, '127.0.0.1');
    await once(greeter, 'listening');
    const { port } = greeter.address() as { port: number };
    const acme = { env: ['ACME_KEY'], patterns: ['acme_[a-z]{24}'], auth: [] };
    const { env } = await open({
      credentialProviders: { acme: { ...acme, url_prefixes: [`https://127.0.0.1:${port}`] } },
    });
    expect(await tunnelled(env, port, '')).toContain('hello\n');
    greeter.close();
    await once(greeter, 'close');
  });

  test("to the host end with the program's, and with the proxy", async () => {
    const fixture = await open();
    const port = Number(new URL(servers.secureUrl).port);
    const sockets = await Promise.all([0, 1].map(() => tunnel(fixture.env, port)));
    expect(await count()).toBe(2);
    sockets[0]?.destroy();
    await waitFor('one connection to go', async () => (await count()) === 1);
    await fixture.proxy.close();
    await waitFor('the other to go', async () => (await count()) === 0);
  });

  test('of the program end when the host closes an idle connection', async () => {
    const { keepAliveTimeout } = servers.secure;
    servers.secure.keepAliveTimeout = 1;
    try {
      const { env, mask } = await open();
      const head = ['GET /v1/x HTTP/1.1', `Authorization: Bearer ${mask}`];
      // It ends with the connection.
      const { stdout } = await insideTunnel(env, servers.secureUrl, head, '');
      expect(stdout).toContain(`Bearer ${CREDENTIAL}`);
    } finally {
      servers.secure.keepAliveTimeout = keepAliveTimeout;
    }
  });

  test('end when the program does not complete the TLS handshake in time, and not when it is idle after it', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    try {
      const { env } = await open();
      const port = Number(new URL(servers.secureUrl).port);
      const [first, hello, complete] = await Promise.all([0, 1, 2].map(() => tunnel(env, port)));
      first!.write(Buffer.of(0x16));
      hello!.write(await clientHello());
      await once(hello!, 'data');
      const idle = secureConnect({ socket: complete!, rejectUnauthorized: false });
      await once(idle, 'secureConnect');
      const closed = [first!, hello!].map((socket) => once(socket.resume(), 'close'));
      await vi.advanceTimersByTimeAsync(TLS_HANDSHAKE_MS);
      await Promise.all(closed);
      idle.write(`GET /v2/x HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n\r\n`);
      expect(String((await once(idle, 'data'))[0])).toContain('200 OK');
      idle.destroy();
    } finally {
      vi.useRealTimers();
    }
  });

  /** The first message of a TLS handshake. */
  function clientHello(): Promise<Buffer> {
    return new Promise((resolve) => {
      const socket = new Duplex({ read: () => {}, write: (bytes) => resolve(bytes) });
      secureConnect({ socket }).on('error', () => {});
    });
  }

  function count(): Promise<number> {
    return promisify(servers.secure.getConnections.bind(servers.secure))();
  }
});

/** A connection of the program to the host through the proxy. */
async function tunnel(env: Record<string, string>, port: number): Promise<Socket> {
  const { port: proxyPort, username, password } = new URL(env.HTTP_PROXY ?? '');
  const socket = connect(Number(proxyPort), '127.0.0.1');
  const proof = Buffer.from(`${username}:${password}`).toString('base64');
  socket.on('error', () => {});
  socket.write(`CONNECT 127.0.0.1:${port} HTTP/1.1\r\nProxy-Authorization: Basic ${proof}\r\n\r\n`);
  await once(socket, 'data');
  return socket;
}

async function tunnelled(env: Record<string, string>, port: number, text: string): Promise<string> {
  const { port: proxyPort, username, password } = new URL(env.HTTP_PROXY ?? '');
  const socket = connect(Number(proxyPort), '127.0.0.1');
  const proof = Buffer.from(`${username}:${password}`).toString('base64');
  socket.write(`CONNECT 127.0.0.1:${port} HTTP/1.1\r\nProxy-Authorization: Basic ${proof}\r\n\r\n${text}`);
  let output = '';
  socket.on('data', (data) => {
    output += data;
  });
  await once(socket, 'end');
  socket.destroy();
  return output;
}

test('sends the mask to a local name that resolves to another machine', async () => {
  const acme = { env: ['ACME_KEY'], patterns: ['acme_[a-z]{24}'], auth: [] };
  const masks = new CredentialMasks({ acme: { ...acme, url_prefixes: ['http://localhost:80'] } });
  const { ACME_KEY: mask } = masks.cover({ ACME_KEY: CREDENTIAL });
  const interception = new Interception({ masks, mode: 'full', via: 'x' } as never);
  const sentTo = (remoteAddress: string) => {
    const headers = groupedHeaders([['Authorization', `Bearer ${mask}`]]);
    const target = { host: { name: 'localhost', address: null }, port: 80, path: '/' };
    interception.unmaskPlain(headers, target, 'GET', { remoteAddress } as Socket);
    return headers.get('authorization')?.[1];
  };
  for (const near of ['127.0.0.1', '127.9.9.9', '::1', '::ffff:127.0.0.1']) {
    expect(sentTo(near)).toEqual([`Bearer ${CREDENTIAL}`]);
  }
  for (const far of ['10.0.0.1', '0.0.0.0', '::', '8.8.8.8']) expect(sentTo(far)).toEqual([`Bearer ${mask}`]);
});
