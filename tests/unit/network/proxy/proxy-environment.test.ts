import { expect, test } from 'vitest';
import { CredentialMasks } from '../../../../src/network/proxy/masking/credential-masks.ts';
import { proxyEnvironment, withoutCredentialHosts } from '../../../../src/network/proxy/proxy-environment.ts';

const LOCAL = 'localhost,127.0.0.1,::1,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16';

/** The variables of a recorded environment. */
const RECORDED = [
  ...[
    'HTTP_PROXY',
    'HTTPS_PROXY',
    'http_proxy',
    'https_proxy',
    'WS_PROXY',
    'WSS_PROXY',
    'ws_proxy',
    'wss_proxy',
  ],
  ...['NPM_CONFIG_HTTP_PROXY', 'NPM_CONFIG_HTTPS_PROXY', 'NPM_CONFIG_PROXY', 'NPM_CONFIG_NOPROXY'],
  ...['npm_config_http_proxy', 'npm_config_https_proxy', 'npm_config_proxy', 'npm_config_noproxy'],
  ...[
    'YARN_HTTP_PROXY',
    'YARN_HTTPS_PROXY',
    'BUNDLE_HTTP_PROXY',
    'BUNDLE_HTTPS_PROXY',
    'BUNDLE_NO_PROXY',
    'PIP_PROXY',
  ],
  ...[
    'DOCKER_HTTP_PROXY',
    'DOCKER_HTTPS_PROXY',
    'ALL_PROXY',
    'all_proxy',
    'FTP_PROXY',
    'ftp_proxy',
    'NO_PROXY',
    'no_proxy',
  ],
  ...[
    'CODEX_NETWORK_PROXY_ACTIVE',
    'CODEX_NETWORK_ALLOW_LOCAL_BINDING',
    'ELECTRON_GET_USE_PROXY',
    'NODE_USE_ENV_PROXY',
  ],
];

test('sets the recorded variables', () => {
  const env = proxyEnvironment({ http: 'http://127.0.0.1:1', socks: 'socks5h://127.0.0.1:2' }, false);
  expect(Object.keys(env).sort()).toEqual([...RECORDED].sort());
  const valued = (value: string) =>
    Object.keys(env)
      .filter((name) => env[name] === value)
      .sort();
  expect(valued('socks5h://127.0.0.1:2')).toEqual(['ALL_PROXY', 'FTP_PROXY', 'all_proxy', 'ftp_proxy']);
  expect(valued('')).toEqual([
    'BUNDLE_NO_PROXY',
    'NO_PROXY',
    'NPM_CONFIG_NOPROXY',
    'no_proxy',
    'npm_config_noproxy',
  ]);
  expect(env).toMatchObject({
    HTTP_PROXY: 'http://127.0.0.1:1',
    PIP_PROXY: 'http://127.0.0.1:1',
    CODEX_NETWORK_PROXY_ACTIVE: '1',
    CODEX_NETWORK_ALLOW_LOCAL_BINDING: '0',
    ELECTRON_GET_USE_PROXY: 'true',
    NODE_USE_ENV_PROXY: '1',
  });
});

test('uses the HTTP proxy without SOCKS5, and bypasses it for local hosts if allowed', () => {
  const env = proxyEnvironment({ http: 'http://127.0.0.1:1', socks: null }, true);
  expect(env).toMatchObject({
    ALL_PROXY: 'http://127.0.0.1:1',
    NO_PROXY: LOCAL,
    npm_config_noproxy: LOCAL,
    CODEX_NETWORK_ALLOW_LOCAL_BINDING: '1',
  });
});

test.each([
  ['https://a.test', LOCAL],
  ['http://localhost:1', LOCAL.replace('localhost,', '')],
  ['https://127.0.0.1', LOCAL.replace('127.0.0.1,', '')],
  ['http://[::1]', LOCAL.replace('::1,', '')],
  ['https://api.localhost', LOCAL.replace('localhost,', '')],
  ['https://10.1.2.3', LOCAL.replace('10.0.0.0/8,', '')],
  ['https://172.32.0.1', LOCAL],
])('uses the proxy for a local host that gets credentials: %s', (url, direct) => {
  const acme = { env: ['ACME_KEY'], patterns: ['acme_[a-z]{24}'], url_prefixes: [url], auth: [] };
  const masks = new CredentialMasks({ acme });
  masks.cover({ ACME_KEY: 'acme_abcdefghijklmnopqrstuvwx' });
  const env = proxyEnvironment({ http: 'http://127.0.0.1:1', socks: null }, true);
  expect(withoutCredentialHosts(env, masks)).toMatchObject({
    NO_PROXY: direct,
    no_proxy: direct,
    NPM_CONFIG_NOPROXY: direct,
  });
});
