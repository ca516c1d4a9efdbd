import { expect, test } from 'vitest';
import { proxyFor } from '../../../../src/relay/outbound/proxy.ts';

const chosen = (url: string, env: Record<string, string>) => proxyFor(new URL(url), env)?.host ?? null;

test.each([
  ['https://h', { HTTPS_PROXY: 'http://p:1' }, 'p:1'],
  ['wss://h', { https_proxy: 'p:1', HTTPS_PROXY: 'http://other' }, 'p:1'],
  ['ws://h', { HTTPS_PROXY: 'http://p:1' }, null],
  ['ws://h', { ALL_PROXY: 'http://p:1' }, 'p:1'],
  ['https://127.0.0.1:5', { HTTPS_PROXY: 'http://p:1' }, null],
  ['http://localhost', { HTTP_PROXY: 'http://p:1' }, null],
  ['https://a.h.example', { HTTPS_PROXY: 'http://p:1', NO_PROXY: 'x, .h.example' }, null],
  ['https://h.example', { HTTPS_PROXY: 'http://p:1', no_proxy: '*.h.example' }, null],
  ['https://notexample', { HTTPS_PROXY: 'http://p:1', NO_PROXY: 'example' }, 'p:1'],
  ['https://h:8443', { HTTPS_PROXY: 'http://p:1', NO_PROXY: 'h:443' }, 'p:1'],
  ['https://h:8443', { HTTPS_PROXY: 'http://p:1', NO_PROXY: 'h:8443' }, null],
  ['wss://h', { HTTPS_PROXY: 'http://p:1', NO_PROXY: 'h:443' }, null],
  ['ws://h', { HTTP_PROXY: 'http://p:1', NO_PROXY: 'h:443' }, 'p:1'],
  ['https://h', { HTTPS_PROXY: 'http://p:1', NO_PROXY: '*' }, null],
  ['https://h', { HTTPS_PROXY: ' ' }, null],
])('%s with %j uses the proxy %s', (url, env, proxy) => {
  expect(chosen(url, env as unknown as Record<string, string>)).toBe(proxy);
});

test('rejects a proxy that is not HTTP', () => {
  expect(() => chosen('https://h', { HTTPS_PROXY: 'socks5://p:1' })).toThrow(
    'is not an http:// or https:// URL',
  );
});
