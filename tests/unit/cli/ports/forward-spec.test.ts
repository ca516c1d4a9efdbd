import { describe, expect, test } from 'vitest';
import {
  hostAndPort,
  isLoop,
  parseForward,
  parseForwards,
  remoteText,
} from '../../../../src/cli/ports/forward-spec.ts';

/** What each form means: bind address, local port, host, remote port. */
const FORMS: Readonly<Record<string, readonly [string, number, string, number]>> = {
  '8080': ['127.0.0.1', 8080, '127.0.0.1', 8080],
  '65535': ['127.0.0.1', 65535, '127.0.0.1', 65535],
  '9000:8080': ['127.0.0.1', 9000, '127.0.0.1', 8080],
  '0:8080': ['127.0.0.1', 0, '127.0.0.1', 8080],
  '9000:db.internal:5432': ['127.0.0.1', 9000, 'db.internal', 5432],
  '9000:10.0.0.7:5432': ['127.0.0.1', 9000, '10.0.0.7', 5432],
  '9000:[::1]:5432': ['127.0.0.1', 9000, '::1', 5432],
  '9000:my_db-1:5432': ['127.0.0.1', 9000, 'my_db-1', 5432],
  '127.0.0.1:9000:8080': ['127.0.0.1', 9000, '127.0.0.1', 8080],
  'localhost:9000:8080': ['localhost', 9000, '127.0.0.1', 8080],
  '0.0.0.0:0:8080': ['0.0.0.0', 0, '127.0.0.1', 8080],
  '[::1]:9000:8080': ['::1', 9000, '127.0.0.1', 8080],
  '[::1]:9000:db.internal:5432': ['::1', 9000, 'db.internal', 5432],
  '0.0.0.0:9000:[fe80::1]:5432': ['0.0.0.0', 9000, 'fe80::1', 5432],
};

test.each(Object.entries(FORMS))('%s', (text, [bind, localPort, host, port]) => {
  expect(parseForward(text)).toEqual({ bind, localPort, host, port });
});

const BAD: Readonly<Record<string, RegExp>> = {
  '': /'' is no port to forward; write PORT, LOCAL:REMOTE/,
  http: /does not end with a port/,
  '-1': /does not end with a port/,
  '65536': /does not end with a port of the server, 1 to 65535/,
  '080808': /does not end with a port/,
  '8080 ': /does not end with a port/,
  '8080.0': /does not end with a port/,
  '0x50': /does not end with a port/,
  '8080:': /is no port to forward/,
  ':8080': /is no port to forward/,
  '9000::8080': /is no port to forward/,
  '0': /'0' names no port of the server; write 0:PORT/,
  '9000:0': /names no port of the server/,
  'db.internal:5432': /'db.internal:5432' has no local port; .*LOCAL:HOST:REMOTE/,
  '127.0.0.1:8080': /has no local port/,
  '70000:8080': /has no local port/,
  '9000:8080:5432': /has '8080' as HOST, which is no host/,
  '9000:db internal:5432': /has 'db internal' as HOST/,
  '9000:1.2.3:5432': /has '1.2.3' as HOST/,
  '9000:[db]:5432': /has '\[db\]' as HOST/,
  '9000:[127.0.0.1]:5432': /as HOST/,
  '1.2.3.4.5:9000:8080': /as BIND/,
  '*:9000:8080': /write 0.0.0.0 for all addresses/,
  '::1:9000:8080': /is no port to forward/,
  '[::1:9000:8080': /is no port to forward/,
  '[::1]9000:8080': /is no port to forward/,
  'a:b:c:1': /has no local port/,
  '9000:8080:a:1': /has no local port/,
  '1:2:3:4:5': /is no port to forward/,
  [`9000:${'a'.repeat(254)}:1`]: /as HOST/,
  '9000:a\u0000b:1': /'a\\u0000b' as HOST/,
};

test.each(Object.entries(BAD))('refuses %j', (text, message) => {
  expect(() => parseForward(text)).toThrow(message);
  expect(() => parseForward(text)).toThrow(expect.objectContaining({ command: 'port-forward' }));
});

describe('several ports', () => {
  test('must not need the same local port', () => {
    expect(() => parseForwards(['8080', '8080:9000'])).toThrow('127.0.0.1:8080 is given more than once');
    expect(() => parseForwards(['[::1]:80:1', '[::1]:80:2'])).toThrow('[::1]:80 is given more than once');
  });

  test('may use any free port, the same remote port, and another address', () => {
    expect(parseForwards(['0:8080', '0:8080', '8080', '127.0.0.2:8080:8080'])).toHaveLength(4);
  });
});

test('shows where a port leads to', () => {
  expect(remoteText({ host: '127.0.0.1', port: 8080 })).toBe('8080');
  expect(remoteText({ host: 'db.internal', port: 5432 })).toBe('db.internal:5432');
  expect(hostAndPort('::1', 80)).toBe('[::1]:80');
});

test.each([
  ['8080', true],
  ['localhost:8080:8080', true],
  ['0.0.0.0:8080:8080', true],
  ['[::]:8080:[::1]:8080', true],
  ['[::1]:8080:8080', false],
  ['0:8080', false],
  ['9000:8080', false],
  ['8080:db.internal:8080', false],
])('%s on one machine is a loop: %s', (text, expected) => {
  expect(isLoop(parseForward(text))).toBe(expected);
});
