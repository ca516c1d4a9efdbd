import { describe, expect, test } from 'vitest';
import { Destination } from '../../../../../src/network/proxy/masking/destination.ts';

const covers = (prefix: string, url: string) => {
  const { protocol, hostname, port } = new URL(url);
  const scheme = protocol === 'https:' ? 'https' : 'http';
  const path = url.replace(/^\w+:\/\/[^/]*/, '') || '/';
  return new Destination(prefix).covers({
    scheme,
    host: hostname.replace(/^\[|\]$/g, ''),
    port: Number(port) || (scheme === 'https' ? 443 : 80),
    path,
  });
};

describe('Destination', () => {
  test.each([
    ['https://a.test', 'https://a.test/'],
    ['a.test', 'https://a.test/any/path'],
    ['A.TEST.', 'https://a.test/'],
    [' https://a.test:443/ ', 'https://a.test/x'],
    ['https://a.test:8443', 'https://a.test:8443/'],
    ['https://a.test/v1', 'https://a.test/v1'],
    ['https://a.test/v1', 'https://a.test/v1/x'],
    ['https://a.test/v1/', 'https://a.test/v1/x'],
    ['https://a.test/a%20b', 'https://a.test/a%20b/c'],
    ['*.a.test', 'https://x.y.a.test/'],
    ['http://localhost:8080', 'http://localhost:8080/'],
    ['localhost', 'http://localhost/'],
    ['127.0.0.1:9', 'http://127.0.0.1:9/'],
    ['127.1:9', 'http://127.0.0.1:9/'],
    ['http://[::1]:9/v1', 'http://[::1]:9/v1'],
    ['https://localhost', 'https://localhost/'],
    ['https://a.test', 'https://a.test/projects/a%2Fb'],
    ['https://a.test/', 'https://a.test/a/../b;c#d'],
  ])('%s covers %s', (prefix, url) => expect(covers(prefix, url)).toBe(true));

  test.each([
    ['https://a.test', 'http://a.test/'],
    ['https://a.test', 'https://a.test:8443/'],
    ['https://a.test', 'https://b.a.test/'],
    ['https://a.test', 'https://a.test.evil/'],
    ['*.a.test', 'https://a.test/'],
    ['*.a.test', 'https://xa.test/'],
    ['localhost', 'https://localhost/'],
    ['https://a.test/v1', 'https://a.test/'],
    ['https://a.test/v1', 'https://a.test/v10'],
    ['https://a.test/v1', 'https://a.test/V1'],
    ['https://a.test/v1', 'https://a.test//v1'],
    ['https://a.test/v1/', 'https://a.test/v1'],
  ])('%s does not cover %s', (prefix, url) => expect(covers(prefix, url)).toBe(false));

  test.each([
    '/v1/..',
    '/v1/../x',
    '/v1/./x',
    '/v1/%2E%2e/x',
    '/v1/.%2e',
    '/v1/x%2fy',
    '/v1/x%5Cy',
    '/v1/x\\y',
    '/v1/%252e',
    '/v1/%',
    '/v1/%zz',
    '/v1/..;a/x',
    '/v1/..%3ba',
    '/v1/...',
    '/v1/..%20/x',
    '/v1/..%00/x',
    '/v1/..%0d/x',
    '/v1/%c0%ae%c0%ae/x',
    '/v1/x#/../y',
    '/v1/x%23',
    '/v1/x%3f',
    '/v1/\xe9',
  ])('does not cover the ambiguous path %s', (path) => {
    const place = { scheme: 'https', host: 'a.test', port: 443 } as const;
    const destination = new Destination('https://a.test/v1');
    expect(destination.covers({ ...place, path: '/v1/a.b..c;d=1' })).toBe(true);
    expect(destination.covers({ ...place, path })).toBe(false);
  });

  test.each([
    '',
    '*',
    '*.',
    'https://',
    'https://*',
    'https://a.*.test',
    'https://a@b.test',
    'https://a.test?q',
    'https://a.test#f',
    'https://a.test/..',
    'https://a b',
    'https://a.test:0',
    'https://a.test:65536',
    'https://a.test:x',
    '*.127.0.0.1',
    'https://[a',
    'https://a\\b',
  ])('rejects %s', (text) => expect(() => new Destination(text)).toThrow('invalid URL prefix'));

  test.each(['http://a.test', 'http://*.localhost', 'http://10.0.0.1', 'ftp://a.test', 'wss://a.test'])(
    'rejects %s, which would send a credential unencrypted',
    (text) => expect(() => new Destination(text)).toThrow('over http to this machine'),
  );
});
