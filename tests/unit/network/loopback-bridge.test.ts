import { expect, test } from 'vitest';
import { MAX_BRIDGED_PORTS } from '../../../src/network/limits.ts';
import { loopbackProxyPorts } from '../../../src/network/loopback-bridge.ts';

test.each([
  [{ HTTP_PROXY: 'http://127.0.0.1:5555' }, [5555]],
  [{ https_proxy: 'http://u:p@localhost:1/x', ALL_PROXY: 'socks5h://127.0.0.1:2' }, [1, 2]],
  [{ HTTP_PROXY: 'http://127.0.0.1:7', http_proxy: 'http://127.0.0.1:7' }, [7]],
  [{ ALL_PROXY: 'socks5://127.0.0.1' }, [1080]],
  [{ HTTP_PROXY: '127.0.0.1:9' }, [9]],
  [{ HTTP_PROXY: 'http://10.1.1.1:80', npm_config_proxy: 'http://127.0.0.1:3' }, [3]],
] as const)('%o', (env, ports) => {
  expect(loopbackProxyPorts(env as never)).toEqual(ports);
});

test.each([
  [{}, 'requires proxy environment variables'],
  [{ HTTP_PROXY: '', NO_PROXY: '127.0.0.1:1' }, 'requires proxy environment variables'],
  [{ HTTP_PROXY: 'http://10.1.1.1:80' }, 'requires parseable loopback proxy endpoints'],
  [{ HTTP_PROXY: 'http://127.0.0.1.evil.test:80' }, 'requires parseable loopback proxy endpoints'],
  [{ HTTP_PROXY: 'http://127.0.0.1@evil.test:80' }, 'requires parseable loopback proxy endpoints'],
  [{ HTTP_PROXY: 'http://127.0.0.1:0' }, 'requires parseable loopback proxy endpoints'],
  [{ HTTP_PROXY: 'what?' }, 'requires parseable loopback proxy endpoints'],
])('rejects %o', (env, message) => {
  expect(() => loopbackProxyPorts(env as never)).toThrow(message);
});

test('limits the number of ports', () => {
  const names = Array.from({ length: MAX_BRIDGED_PORTS + 1 }, (_, index) => [
    `X${index}_HTTP_PROXY`,
    `127.0.0.1:${index + 1}`,
  ]);
  expect(loopbackProxyPorts(Object.fromEntries(names.slice(1)))).toHaveLength(MAX_BRIDGED_PORTS);
  expect(() => loopbackProxyPorts(Object.fromEntries(names))).toThrow('are supported');
});
