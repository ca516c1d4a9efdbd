import { describe, expect, test } from 'vitest';
import { proxyFor, routeTo } from '../../../../src/network/http/route.ts';

const PLAIN = new URL('http://a.example/');
const SECURE = new URL('https://a.example/');

describe('proxyFor', () => {
  test('uses the variable of the scheme, then ALL_PROXY; upper case first', () => {
    const env = { HTTP_PROXY: 'p1', http_proxy: 'p2', HTTPS_PROXY: 'p3', ALL_PROXY: 'p4' };
    expect(proxyFor(PLAIN, env)).toBe('p1');
    expect(proxyFor(SECURE, env)).toBe('p3');
    expect(proxyFor(PLAIN, { http_proxy: 'p2' })).toBe('p2');
    expect(proxyFor(SECURE, { all_proxy: 'p4', http_proxy: 'p2' })).toBe('p4');
    expect(proxyFor(PLAIN, { HTTP_PROXY: '' })).toBeNull();
    expect(proxyFor(PLAIN, {})).toBeNull();
  });

  test('ignores HTTP_PROXY in a CGI program', () => {
    expect(proxyFor(PLAIN, { REQUEST_METHOD: 'GET', HTTP_PROXY: 'p1' })).toBeNull();
  });

  test.each([
    ['a.example', 'a.example', true],
    ['b.a.example', 'a.example', true],
    ['b.a.example', '.a.example', true],
    ['a.example', '.a.example', true],
    ['xa.example', 'a.example', false],
    ['A.Example', 'a.EXAMPLE', true],
    ['a.example', ' x , a.example ', true],
    ['a.example', '*', true],
    ['127.0.0.1', '*', false],
    ['127.0.0.1', '127.0.0.1', true],
    ['127.0.0.1', '127.0.0.0/8', true],
    ['10.1.2.3', '127.0.0.0/8', false],
    ['[::1]', '::1', true],
    ['[fd00::1]', 'fd00::/8', true],
    ['127.0.0.1', '127.0.0.0/99', false],
    ['a.example', '', false],
  ])('exempts %s with NO_PROXY=%s: %s', (host, list, exempt) => {
    const url = new URL(`http://${host}/`);
    expect(proxyFor(url, { HTTP_PROXY: 'p', NO_PROXY: list }) === null).toBe(exempt);
  });
});

describe('routeTo', () => {
  test('is shared by requests to one server, and to all servers through one proxy without TLS', () => {
    const key = (url: string, env = {}) => routeTo(new URL(url), env).key;
    expect(key('http://a/x')).toBe(key('http://a:80/y'));
    expect(key('http://a/')).not.toBe(key('http://b/'));
    expect(key('http://a/')).not.toBe(key('https://a:80/'));
    const proxied = { ALL_PROXY: 'proxy:3128' };
    expect(key('http://a/', proxied)).toBe(key('http://b/', proxied));
    expect(key('https://a/', proxied)).not.toBe(key('https://b/', proxied));
    expect(routeTo(PLAIN, proxied).proxy?.href).toBe('http://proxy:3128/');
  });

  test('rejects a proxy that is not http or https', () => {
    expect(() => routeTo(PLAIN, { ALL_PROXY: 'socks5://proxy:1080' })).toThrow('not an http or https URL');
  });
});
