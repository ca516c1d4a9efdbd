import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { afterEach, describe, expect, test } from 'vitest';
import { NetworkProxy } from '../../../../src/network/proxy/network-proxy.ts';
import { ProxyResources } from '../../../../src/network/proxy/proxy-resources.ts';
import {
  ask,
  closeFixtures,
  exchange,
  get,
  Names,
  openFixture,
  openWebServer,
  type ProxyFixture,
  settings,
  type WebServer,
} from './proxy-fixture.ts';

afterEach(closeFixtures);

/** Everything public is allowed; a web server on 127.0.0.1 must not be reached. */
async function openTarget(names?: Names): Promise<{ web: WebServer; fixture: ProxyFixture }> {
  const web = await openWebServer();
  return {
    web,
    fixture: await openFixture({ domains: { '*': 'allow' } }, names === undefined ? {} : { names }),
  };
}

describe('paths to a local address', () => {
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
    const { web, fixture } = await openTarget();
    const authority = `${host}:${web.port}`;
    const answers = [
      await get(fixture, authority),
      await exchange(fixture.httpPort, [`CONNECT ${authority} HTTP/1.1\r\n${fixture.authorization}\r\n\r\n`]),
      await ask(fixture, `GET / HTTP/1.1\nHost: ${authority}`),
    ];
    for (const answer of answers)
      expect(answer).toMatch(/^HTTP\/1\.1 403 .*local\/private network addresses/s);
    expect(fixture.decisions.map(({ reason }) => reason)).toEqual(Array(3).fill('not_allowed_local'));
    expect(fixture.names.asked).toEqual([]);
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
    const { web, fixture } = await openTarget(new Names({ 'a.test': addresses }));
    expect(await get(fixture, `a.test:${web.port}`)).toMatch(/^HTTP\/1\.1 403 /);
    expect(web.received).toEqual([]);
  });

  test('connects to the checked address even if the name changes', async () => {
    const web = await openWebServer();
    const names = new Names();
    const fixture = await openFixture({ domains: { '*': 'allow' }, allowLocalBinding: true }, { names });
    expect(await get(fixture, `rebind.test:${web.port}`)).toMatch(/^HTTP\/1\.1 502 /);
    expect(names.asked).toEqual(['rebind.test']);
    expect(web.received).toEqual([]);
  });

  test('blocks a host when the name server does not respond', async () => {
    const host = new ProxyResources(() => new Promise(() => {}));
    const fixture = await openFixture({ domains: { '*': 'allow' } }, { host });
    expect(await get(fixture, 'a.test')).toMatch(/^HTTP\/1\.1 403 .*not_allowed_local/s);
  });

  test('checks hosts that the client allows', async () => {
    const web = await openWebServer();
    const names = new Names({ 'a.test': ['127.0.0.1'] });
    const fixture = await openFixture({ domains: {} }, { names, answer: async () => ({ type: 'allow' }) });
    expect(await get(fixture, `a.test:${web.port}`)).toMatch(/^HTTP\/1\.1 403 .*not_allowed_local/s);
    expect(await get(fixture, `127.0.0.1:${web.port}`)).toMatch(/^HTTP\/1\.1 403 .*not_allowed_local/s);
    expect(fixture.policyRequests).toHaveLength(1);
    expect(web.received).toEqual([]);
  });

  test('denies a name that resolves to a denied address, even if the name is allowed', async () => {
    const web = await openWebServer();
    const names = new Names({ 'a.test': ['127.0.0.1'], 'b.test': ['127.0.0.2', '::ffff:127.0.0.1'] });
    const fixture = await openFixture(
      { allowLocalBinding: true, domains: { 'a.test': 'allow', '127.0.0.1': 'deny' } },
      { names, answer: async () => ({ type: 'allow' }) },
    );
    for (const host of ['a.test', 'b.test']) {
      expect(await get(fixture, `${host}:${web.port}`)).toMatch(/^HTTP\/1\.1 403 .*"reason":"denied"/s);
    }
    expect(fixture.decisions.map(({ decision, reason }) => `${decision} ${reason}`)).toEqual(
      Array(2).fill('deny denied'),
    );
    expect(web.received).toEqual([]);
  });

  test('denies every spelling of a host', async () => {
    const fixture = await openFixture({ domains: { '*': 'allow', '1.0.0.1': 'deny', 'bad.test': 'deny' } });
    for (const host of ['1.1', '0x01000001', '16777217', 'BAD.test', 'bad.TEST.']) {
      expect(await get(fixture, host)).toMatch(/^HTTP\/1\.1 403 .*"reason":"denied"/s);
    }
  });
});

describe('paths to the server itself', () => {
  test('are blocked: the same proxy, another proxy, and the server', async () => {
    const host = new ProxyResources(async () => ['127.0.0.1']);
    const domains = {
      '127.0.0.1': 'allow',
      localhost: 'allow',
      '0.0.0.0': 'allow',
      '[::1]': 'allow',
    } as const;
    const [mine, other] = [
      await openFixture({ domains }, { host }),
      await openFixture({ domains }, { host }),
    ];
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

  test('recognises a request that comes back through another server', async () => {
    const host = new ProxyResources(async () => []);
    const fixture = await openFixture({ domains: { '127.0.0.1': 'allow' } }, { host });
    const web = await openWebServer();
    await get(fixture, `127.0.0.1:${web.port}`);
    const { rawHeaders } = web.received[0]!;
    const via = rawHeaders[rawHeaders.findIndex((name) => name.toLowerCase() === 'via') + 1];
    const again = await ask(fixture, `GET http://127.0.0.1:${web.port}/ HTTP/1.1\nVia: 1.0 x, ${via}`);
    expect(again).toMatch(/^HTTP\/1\.1 508 /);
    expect(web.received).toHaveLength(1);
  });

  test('frees its ports when the proxy closes', async () => {
    const host = new ProxyResources(async () => []);
    const fixture = await openFixture({}, { host });
    expect(host.serverPorts.includes('127.0.0.1', fixture.httpPort)).toBe(true);
    await fixture.proxy.close();
    expect(host.serverPorts.includes('127.0.0.1', fixture.httpPort)).toBe(false);
    await expect(exchange(fixture.httpPort, [''])).rejects.toThrow('ECONNREFUSED');
  });
});

describe('ambiguous requests', () => {
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
  ])('rejects %s', async (_name, headers, body) => {
    const web = await openWebServer();
    const fixture = await openFixture({ domains: { '127.0.0.1': 'allow' } });
    const head = `POST http://127.0.0.1:${web.port}/ HTTP/1.1\r\nHost: 127.0.0.1:${web.port}\r\nConnection: close\r\n`;
    const smuggled = `GET http://127.0.0.1:${web.port}/smuggled HTTP/1.1\r\nHost: 127.0.0.1:${web.port}\r\n\r\n`;
    const text = await exchange(fixture.httpPort, [
      `${head}${fixture.authorization}\r\n${headers}\r\n\r\n${body}${smuggled}`,
    ]);
    expect(text).toMatch(/^HTTP\/1\.1 (400|501) /);
    expect(web.received).toEqual([]);
  });

  test('keeps the content-length that Connection lists', async () => {
    const web = await openWebServer();
    const fixture = await openFixture({ domains: { '127.0.0.1': 'allow' } });
    const authority = `127.0.0.1:${web.port}`;
    const head = `POST http://${authority}/ HTTP/1.1\nHost: ${authority}\nConnection: content-length, host\nContent-Length: 3`;
    await ask(fixture, head, 'abc');
    expect(web.received).toMatchObject([{ body: 'abc' }]);
    expect(web.received[0]?.rawHeaders.join(' ')).toContain(authority);
  });

  test.each([
    'http://127.0.0.1:9@good.test/',
    'http://good.test#@127.0.0.1:9/',
    'http://good.test\\@127.0.0.1:9/',
    'http:///127.0.0.1:9/',
    '//127.0.0.1:9/',
  ])('does not reach 127.0.0.1 with %s', async (url) => {
    const fixture = await openFixture({ domains: { 'good.test': 'allow' } });
    expect(await ask(fixture, `GET ${url} HTTP/1.1`)).toMatch(/^HTTP\/1\.1 (400|403) /);
    expect(fixture.decisions.filter(({ decision }) => decision === 'allow')).toEqual([]);
  });
});

describe('proxy credentials', () => {
  const NOBODY = [
    '',
    'Proxy-Authorization: Basic ZXhlYzp3cm9uZw==',
    'Proxy-Authorization: Bearer x',
    'Proxy-Authorization: Basic !',
  ];

  test.each(NOBODY)('rejects requests without the password (%j)', async (header) => {
    const web = await openWebServer();
    const fixture = await openFixture({ domains: { '127.0.0.1': 'allow' } });
    const authority = `127.0.0.1:${web.port}`;
    const lines = `Host: ${authority}\r\nConnection: close\r\n${header === '' ? '' : `${header}\r\n`}\r\n`;
    for (const first of [`GET http://${authority}/`, `CONNECT ${authority}`]) {
      const text = await exchange(fixture.httpPort, [`${first} HTTP/1.1\r\n${lines}`]);
      expect(text).toMatch(/^HTTP\/1\.1 407 .*proxy-authenticate: Basic realm="exec-server"/is);
    }
    expect(fixture.decisions).toEqual([]);
    expect(web.received).toEqual([]);
  });

  test('rejects the password of another proxy', async () => {
    const [mine, other] = [await openFixture(), await openFixture()];
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
  ])('lets curl use its environment over %s', async (_name, [variable = '', ...options]) => {
    const web = await openWebServer();
    const fixture = await openFixture({ domains: { '127.0.0.1': 'allow' } });
    const name = `${variable}_proxy`;
    const env = { PATH: process.env.PATH ?? '', [name]: fixture.proxy.environment[name] ?? '' };
    const { stdout } = await run(
      'curl',
      ['-sS', '--max-time', '10', ...options, `http://127.0.0.1:${web.port}/`],
      { env },
    );
    expect(stdout).toBe('from upstream');
    const blocked = run('curl', ['-sS', '--fail', ...options, 'http://nope.test/'], { env });
    await expect(blocked).rejects.toMatchObject({ code: expect.any(Number) });
    expect(fixture.decisions).toMatchObject([{ decision: 'allow' }, { decision: 'deny', host: 'nope.test' }]);
  });
});

test.each([
  ['is not enabled', { enabled: false }],
  ['allows a relative unix socket', { unixSockets: { 'a/b': 'allow' } }],
  ['denies everything', { domains: { '*': 'deny' } }],
  ['has a pattern that is none', { reviewDomains: ['['] }],
] as const)('does not start a proxy that %s', async (_name, changes) => {
  const peer = { decided: () => {}, ask: null };
  const options = { settings: settings(changes as never), resources: new ProxyResources(), peer, owner: {} };
  await expect(NetworkProxy.open(options)).rejects.toMatchObject({ name: 'NetworkError', kind: 'invalid' });
});
