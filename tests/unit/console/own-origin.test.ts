import { expect, test } from 'vitest';
import { ownOrigin } from '../../../src/console/own-origin.ts';

test.each<[string, string | undefined, string | undefined, boolean, boolean | null]>([
  ['its own', 'http://host:1', 'host:1', false, false],
  ['its own in capitals', 'http://host:1', 'HOST:1', false, false],
  ['its own behind a proxy with TLS', 'https://host', 'host', false, true],
  ['its own with TLS', 'https://[::1]:1', '[::1]:1', true, true],
  ['the same host without TLS', 'http://host:1', 'host:1', true, null],
  ['another port', 'http://host:2', 'host:1', false, null],
  ['another host', 'http://other:1', 'host:1', false, null],
  ['a host that begins like it', 'http://host:1.evil.example', 'host:1', false, null],
  ['null', 'null', 'host:1', false, null],
  ['none', undefined, 'host:1', false, null],
  ['one without a Host', 'http://host:1', undefined, false, null],
  ['one with a Host that is a header', 'http://a; x', 'a; x', false, null],
  ['one with a long Host', `http://${'a'.repeat(300)}`, 'a'.repeat(300), false, null],
])('an origin that is %s is judged', (_, origin, host, tls, secure) => {
  const own = ownOrigin({ headers: { ...(origin !== undefined && { origin }) } }, host, {
    tls,
    required: true,
  });
  expect(own?.secure ?? null).toBe(secure);
});

test('an absent origin is the own one where none is required', () => {
  expect(ownOrigin({ headers: {} }, 'Host:1', { tls: true, required: false })).toEqual({
    host: 'host:1',
    secure: true,
  });
});
