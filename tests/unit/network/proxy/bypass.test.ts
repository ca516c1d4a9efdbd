import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { afterEach, describe, expect, test } from 'vitest';
import { NetworkProxy } from '../../../../src/network/proxy/network-proxy.ts';
import { ProxyResources } from '../../../../src/network/proxy/proxy-resources.ts';
import {
  ask,
  closeScenes,
  exchange,
  get,
  Names,
  openScene,
  openWebServer,
  type Scene,
  settings,
  type WebServer,
} from './scene.ts';

afterEach(closeScenes);

/** Everything public is allowed, and a web server on 127.0.0.1 is what must not be reached. */
async function openTarget(names?: Names): Promise<{ web: WebServer; scene: Scene }> {
  const web = await openWebServer();
  return { web, scene: await openScene({ domains: { '*': 'allow' } }, names === undefined ? {} : { names }) };
}

describe('ways to a local address', () => {
  test.each([
    ...[
      '127.0.0.1',
      '127.1',
      '127.0.1',
      '0x7f.1',
      '0x7f000001',
      '0X7F.0.0.1',
      '0177.0.0.1',
      '017700000001',
      '2130706433',
    ],
    ...['127.0.0.1.', '127.255.255.254', '0', '0.0.0.0', 'localhost', 'LOCALHOST', 'localhost.'],
    ...[
      '[::1]',
      '[::]',
      '[0:0:0:0:0:0:0:1]',
      '[::ffff:127.0.0.1]',
      '[::ffff:7f00:1]',
      '[::127.0.0.1]',
      '[64:ff9b::7f00:1]',
      '[2002:7f00:1::]',
    ],
    ...['169.254.169.254', '[fe80::1]', '[fd00::1]', '10.0.0.1', '192.168.0.1', '172.16.0.1', '100.64.0.1'],
  ])('%s is blocked over HTTP and CONNECT', async (host) => {
    const { web, scene } = await openTarget();
    const authority = `${host}:${web.port}`;
    const answers = [
      await get(scene, authority),
      await exchange(scene.httpPort, [`CONNECT ${authority} HTTP/1.1\r\n${scene.authorization}\r\n\r\n`]),
      await ask(scene, `GET / HTTP/1.1\nHost: ${authority}`),
    ];
    for (const answer of answers)
      expect(answer).toMatch(/^HTTP\/1\.1 403 .*local\/private network addresses/s);
    expect(scene.decisions.map(({ reason }) => reason)).toEqual(Array(3).fill('not_allowed_local'));
    expect(scene.names.asked).toEqual([]);
    expect(web.received).toEqual([]);
  });

  test.each([
    ['a name of a local address', ['127.0.0.1']],
    ['a name of the metadata service', ['169.254.169.254']],
    ['a name with a public and a local address', ['1.1.1.1', '127.0.0.1']],
    ['a name of a mapped address', ['::ffff:127.0.0.1']],
    ['a name of an address that others translate', ['64:ff9b::7f00:1']],
    ['a name without any', []],
  ])('%s is blocked', async (_name, addresses) => {
    const { web, scene } = await openTarget(new Names({ 'a.test': addresses }));
    expect(await get(scene, `a.test:${web.port}`)).toMatch(/^HTTP\/1\.1 403 /);
    expect(web.received).toEqual([]);
  });

  test('a name that changes its address after the check does not change where the request goes', async () => {
    const web = await openWebServer();
    const names = new Names();
    const scene = await openScene({ domains: { '*': 'allow' }, allowLocalBinding: true }, { names });
    expect(await get(scene, `rebind.test:${web.port}`)).toMatch(/^HTTP\/1\.1 502 /);
    expect(names.asked).toEqual(['rebind.test']);
    expect(web.received).toEqual([]);
  });

  test('a name server that never answers blocks the host', async () => {
    const host = new ProxyResources(() => new Promise(() => {}));
    const scene = await openScene({ domains: { '*': 'allow' } }, { host });
    expect(await get(scene, 'a.test')).toMatch(/^HTTP\/1\.1 403 .*not_allowed_local/s);
  });

  test('what the client allows is checked like everything else', async () => {
    const web = await openWebServer();
    const names = new Names({ 'a.test': ['127.0.0.1'] });
    const scene = await openScene({ domains: {} }, { names, answer: async () => ({ type: 'allow' }) });
    expect(await get(scene, `a.test:${web.port}`)).toMatch(/^HTTP\/1\.1 403 .*not_allowed_local/s);
    expect(await get(scene, `127.0.0.1:${web.port}`)).toMatch(/^HTTP\/1\.1 403 .*not_allowed_local/s);
    expect(scene.questions).toHaveLength(1);
    expect(web.received).toEqual([]);
  });

  test('a name that leads to a denied address is denied, whoever allows the name', async () => {
    const web = await openWebServer();
    const names = new Names({ 'a.test': ['127.0.0.1'], 'b.test': ['127.0.0.2', '::ffff:127.0.0.1'] });
    const scene = await openScene(
      { allowLocalBinding: true, domains: { 'a.test': 'allow', '127.0.0.1': 'deny' } },
      { names, answer: async () => ({ type: 'allow' }) },
    );
    for (const host of ['a.test', 'b.test']) {
      expect(await get(scene, `${host}:${web.port}`)).toMatch(/^HTTP\/1\.1 403 .*"reason":"denied"/s);
    }
    expect(scene.decisions.map(({ decision, reason }) => `${decision} ${reason}`)).toEqual(
      Array(2).fill('deny denied'),
    );
    expect(web.received).toEqual([]);
  });

  test('denial holds for every spelling', async () => {
    const scene = await openScene({ domains: { '*': 'allow', '1.0.0.1': 'deny', 'bad.test': 'deny' } });
    for (const host of ['1.1', '0x01000001', '16777217', 'BAD.test', 'bad.TEST.']) {
      expect(await get(scene, host)).toMatch(/^HTTP\/1\.1 403 .*"reason":"denied"/s);
    }
  });
});

describe('ways to the server itself', () => {
  test('no proxy forwards to itself, to another proxy, or to the server', async () => {
    const host = new ProxyResources(async () => ['127.0.0.1']);
    const domains = {
      '127.0.0.1': 'allow',
      localhost: 'allow',
      '0.0.0.0': 'allow',
      '[::1]': 'allow',
    } as const;
    const [mine, other] = [await openScene({ domains }, { host }), await openScene({ domains }, { host })];
    const web = await openWebServer();
    const remove = host.serverPorts.add(web.port);
    for (const port of [mine.httpPort, mine.socksPort, other.httpPort, other.socksPort, web.port]) {
      for (const name of ['127.0.0.1', 'localhost', '0.0.0.0', '[::1]']) {
        expect(await get(mine, `${name}:${port}`)).toMatch(/^HTTP\/1\.1 403 .*not_allowed_local/s);
      }
      const tunnel = `CONNECT 127.0.0.1:${port} HTTP/1.1\r\n${mine.authorization}\r\n\r\n`;
      expect(await exchange(mine.httpPort, [tunnel])).toMatch(/^HTTP\/1\.1 403 /);
    }
    expect(web.received).toEqual([]);
    remove();
    expect(await get(mine, `127.0.0.1:${web.port}`)).toContain('from upstream');
  });

  test('a request that comes back through something else is recognised', async () => {
    const host = new ProxyResources(async () => []);
    const scene = await openScene({ domains: { '127.0.0.1': 'allow' } }, { host });
    const web = await openWebServer();
    await get(scene, `127.0.0.1:${web.port}`);
    const { rawHeaders } = web.received[0]!;
    const via = rawHeaders[rawHeaders.findIndex((name) => name.toLowerCase() === 'via') + 1];
    const again = await ask(scene, `GET http://127.0.0.1:${web.port}/ HTTP/1.1\nVia: 1.0 x, ${via}`);
    expect(again).toMatch(/^HTTP\/1\.1 508 /);
    expect(web.received).toHaveLength(1);
  });

  test('ports are given back with the proxy', async () => {
    const host = new ProxyResources(async () => []);
    const scene = await openScene({}, { host });
    expect(host.serverPorts.includes('127.0.0.1', scene.httpPort)).toBe(true);
    await scene.proxy.close();
    expect(host.serverPorts.includes('127.0.0.1', scene.httpPort)).toBe(false);
    await expect(exchange(scene.httpPort, [''])).rejects.toThrow('ECONNREFUSED');
  });
});

describe('requests that two readers may read differently', () => {
  test.each([
    ['a length and chunks', 'Content-Length: 3\r\nTransfer-Encoding: chunked', '0\r\n\r\n'],
    ['chunks and a length', 'Transfer-Encoding: chunked\r\nContent-Length: 3', '0\r\n\r\n'],
    ['two lengths', 'Content-Length: 3\r\nContent-Length: 4', 'abcd'],
    ['a length with a sign', 'Content-Length: +3', 'abc'],
    ['a coding behind chunks', 'Transfer-Encoding: chunked, identity', '0\r\n\r\n'],
    ['a coding before chunks', 'Transfer-Encoding: gzip, chunked', '0\r\n\r\n'],
    ['a coding that is none', 'Transfer-Encoding: xchunked', '0\r\n\r\n'],
    ['a blank before the colon', 'Transfer-Encoding : chunked', '0\r\n\r\n'],
    ['a folded header', 'X-A: 1\r\n Transfer-Encoding: chunked', ''],
    ['a bare line feed', 'X-A: 1\nTransfer-Encoding: chunked', '0\r\n\r\n'],
    ['a NUL', 'X-A: a\0b', ''],
  ])('%s: refused', async (_name, headers, body) => {
    const web = await openWebServer();
    const scene = await openScene({ domains: { '127.0.0.1': 'allow' } });
    const head = `POST http://127.0.0.1:${web.port}/ HTTP/1.1\r\nHost: 127.0.0.1:${web.port}\r\nConnection: close\r\n`;
    const smuggled = `GET http://127.0.0.1:${web.port}/smuggled HTTP/1.1\r\nHost: 127.0.0.1:${web.port}\r\n\r\n`;
    const text = await exchange(scene.httpPort, [
      `${head}${scene.authorization}\r\n${headers}\r\n\r\n${body}${smuggled}`,
    ]);
    expect(text).toMatch(/^HTTP\/1\.1 (400|501) /);
    expect(web.received).toEqual([]);
  });

  test('a header that Connection lists cannot take the length of the body away', async () => {
    const web = await openWebServer();
    const scene = await openScene({ domains: { '127.0.0.1': 'allow' } });
    const authority = `127.0.0.1:${web.port}`;
    const head = `POST http://${authority}/ HTTP/1.1\nHost: ${authority}\nConnection: content-length, host\nContent-Length: 3`;
    await ask(scene, head, 'abc');
    expect(web.received).toMatchObject([{ body: 'abc' }]);
    expect(web.received[0]?.rawHeaders.join(' ')).toContain(authority);
  });

  test.each([
    'http://127.0.0.1:9@good.test/',
    'http://good.test#@127.0.0.1:9/',
    'http://good.test\\@127.0.0.1:9/',
    'http:///127.0.0.1:9/',
    '//127.0.0.1:9/',
  ])('%s does not lead to 127.0.0.1', async (url) => {
    const scene = await openScene({ domains: { 'good.test': 'allow' } });
    expect(await ask(scene, `GET ${url} HTTP/1.1`)).toMatch(/^HTTP\/1\.1 (400|403) /);
    expect(scene.decisions.filter(({ decision }) => decision === 'allow')).toEqual([]);
  });
});

describe('whose proxy it is', () => {
  const NOBODY = [
    '',
    'Proxy-Authorization: Basic ZXhlYzp3cm9uZw==',
    'Proxy-Authorization: Bearer x',
    'Proxy-Authorization: Basic !',
  ];

  test.each(NOBODY)('without its password (%j) nothing is done', async (header) => {
    const web = await openWebServer();
    const scene = await openScene({ domains: { '127.0.0.1': 'allow' } });
    const authority = `127.0.0.1:${web.port}`;
    const lines = `Host: ${authority}\r\nConnection: close\r\n${header === '' ? '' : `${header}\r\n`}\r\n`;
    for (const first of [`GET http://${authority}/`, `CONNECT ${authority}`]) {
      const text = await exchange(scene.httpPort, [`${first} HTTP/1.1\r\n${lines}`]);
      expect(text).toMatch(/^HTTP\/1\.1 407 .*proxy-authenticate: Basic realm="exec-server"/is);
    }
    expect(scene.decisions).toEqual([]);
    expect(web.received).toEqual([]);
  });

  test('the password of another proxy does not help', async () => {
    const [mine, other] = [await openScene(), await openScene()];
    expect(mine.password).toMatch(/^[0-9a-f]{32}$/);
    expect(await get({ ...mine, authorization: other.authorization }, 'a.test')).toMatch(/^HTTP\/1\.1 407 /);
  });
});

describe('real programs', () => {
  const run = promisify(execFile);

  test.each([
    ['HTTP', ['http']],
    ['CONNECT', ['http', '--proxytunnel']],
    ['SOCKS5', ['all', '--noproxy', '']],
  ])('curl uses its environment over %s', async (_name, [variable = '', ...options]) => {
    const web = await openWebServer();
    const scene = await openScene({ domains: { '127.0.0.1': 'allow' } });
    const name = `${variable}_proxy`;
    const env = { PATH: process.env.PATH ?? '', [name]: scene.proxy.environment[name] ?? '' };
    const { stdout } = await run(
      'curl',
      ['-sS', '--max-time', '10', ...options, `http://127.0.0.1:${web.port}/`],
      { env },
    );
    expect(stdout).toBe('from upstream');
    const blocked = run('curl', ['-sS', '--fail', ...options, 'http://nope.test/'], { env });
    await expect(blocked).rejects.toMatchObject({ code: expect.any(Number) });
    expect(scene.decisions).toMatchObject([{ decision: 'allow' }, { decision: 'deny', host: 'nope.test' }]);
  });
});

test.each([
  ['is not enabled', { enabled: false }],
  ['allows a relative unix socket', { unixSockets: { 'a/b': 'allow' } }],
  ['denies everything', { domains: { '*': 'deny' } }],
  ['has a pattern that is none', { reviewDomains: ['['] }],
] as const)('a proxy that %s is not started', async (_name, changes) => {
  const peer = { decided: () => {}, ask: null };
  const options = { settings: settings(changes as never), resources: new ProxyResources(), peer };
  await expect(NetworkProxy.open(options)).rejects.toMatchObject({ name: 'NetworkError', kind: 'invalid' });
});
