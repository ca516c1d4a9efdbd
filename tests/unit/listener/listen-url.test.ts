import { expect, test } from 'vitest';
import { isLoopback, ListenUrlError, parseListenUrl } from '../../../src/listener/listen-url.ts';
import { DEFAULT_LISTEN_URL } from '../../../src/server/config/config.ts';

test.each([
  [DEFAULT_LISTEN_URL, { kind: 'websocket', secure: false, host: '127.0.0.1', port: 0 }],
  ['ws://0.0.0.0:65535', { kind: 'websocket', secure: false, host: '0.0.0.0', port: 65_535 }],
  ['ws://localhost:4000', { kind: 'websocket', secure: false, host: '127.0.0.1', port: 4000 }],
  ['ws://[::1]:4000', { kind: 'websocket', secure: false, host: '::1', port: 4000 }],
  ['ws://[::]:0', { kind: 'websocket', secure: false, host: '::', port: 0 }],
  ['ws://[::ffff:127.0.0.1]:1', { kind: 'websocket', secure: false, host: '::ffff:127.0.0.1', port: 1 }],
  ['wss://127.0.0.1:0', { kind: 'websocket', secure: true, host: '127.0.0.1', port: 0 }],
  ['wss://[::]:443', { kind: 'websocket', secure: true, host: '::', port: 443 }],
  ['unix:///run/exec server/a%20b:c', { kind: 'unix', path: '/run/exec server/a%20b:c' }],
  ['stdio', { kind: 'stdio' }],
  ['stdio://', { kind: 'stdio' }],
  ['off', { kind: 'off' }],
])('parses %s', (text, address) => {
  expect(parseListenUrl(text)).toEqual(address);
});

test.each([
  'http://127.0.0.1:0',
  'wss:127.0.0.1:0',
  'unix:/tmp/socket',
  'STDIO',
  'OFF',
  'WS://127.0.0.1:0',
  '',
  ' ws://127.0.0.1:0',
  '127.0.0.1:0',
  'stdio:///',
])('rejects %j as unsupported', (text) => {
  expect(() => parseListenUrl(text)).toThrow(
    expect.objectContaining({
      kind: 'unsupported',
      message: `unsupported --listen URL \`${text}\`; expected \`ws://IP:PORT\`, \`wss://IP:PORT\`, \`unix:///PATH\` or \`stdio\``,
    }),
  );
});

test.each([
  'ws://example.com:0',
  'ws://127.0.0.1',
  'ws://127.0.0.1:',
  'ws://127.0.0.1:0/',
  'ws://127.0.0.1:0/path',
  'ws://127.0.0.1:99999',
  'ws://127.0.0.1:65536',
  'ws://127.0.0.1:-1',
  'ws://127.0.0.1:0 ',
  'ws://127.0.0.1:0\n',
  'ws://127.0.0.1:00000000000000000080',
  'ws://127.0.0.256:0',
  'ws://127.1:0',
  'ws://::1:0',
  'ws://[127.0.0.1]:0',
  'ws://[::1]',
  'ws://[]:0',
  'ws://user@127.0.0.1:0',
  'ws://:0',
  'ws://',
])('rejects %j as invalid', (text) => {
  expect(() => parseListenUrl(text)).toThrow(
    expect.objectContaining({
      kind: 'invalid',
      message: `invalid websocket --listen URL \`${text}\`; expected \`ws://IP:PORT\``,
    }),
  );
  expect(() => parseListenUrl(text)).toThrow(ListenUrlError);
});

test.each([
  ['wss://example.com:0', '`wss://IP:PORT`'],
  ['wss://127.0.0.1', '`wss://IP:PORT`'],
  ['unix://socket', '`unix:///PATH`'],
  ['unix://', '`unix:///PATH`'],
  ['unix:///', '`unix:///PATH`'],
  ['unix:///run/', '`unix:///PATH`'],
  ['unix:///\0abstract', '`unix:///PATH`'],
])('rejects %j as invalid and expects %s', (text, expected) => {
  expect(() => parseListenUrl(text)).toThrow(
    expect.objectContaining({
      kind: 'invalid',
      message: `invalid websocket --listen URL \`${text}\`; expected ${expected}`,
    }),
  );
});

test.each(['127.0.0.1', '127.255.0.3', '::1', '0:0:0:0:0:0:0:1', '::ffff:127.0.0.1'])(
  'recognizes %s as loopback',
  (host) => {
    expect(isLoopback(host)).toBe(true);
  },
);

test.each(['0.0.0.0', '128.0.0.1', '10.127.0.1', '::', '::2', '::11', '1::1', 'fe80::1', '::ffff:10.0.0.1'])(
  'does not take %s for loopback',
  (host) => {
    expect(isLoopback(host)).toBe(false);
  },
);
