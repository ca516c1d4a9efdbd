import { expect, test } from 'vitest';
import { createHostCheck } from '../../../src/listener/host-check.ts';

test.each<[string, string, string | undefined, boolean]>([
  ['127.0.0.1', '', '127.0.0.1:4000', true],
  ['127.0.0.1', '', '127.0.0.1', true],
  ['127.0.0.1', '', '127.9.9.9:80', true],
  ['127.0.0.1', '', 'localhost:4000', true],
  ['127.0.0.1', '', 'LOCALHOST.', true],
  ['127.0.0.1', '', '[::1]:4000', true],
  ['127.0.0.1', '', undefined, true],
  ['127.0.0.1', '', 'evil.example:4000', false],
  ['127.0.0.1', '', 'localhost.evil.example', false],
  ['127.0.0.1', '', '127.0.0.1.evil.example', false],
  ['127.0.0.1', '', '127.0.0.1@evil.example', false],
  ['127.0.0.1', '', '2130706433', false],
  ['127.0.0.1', '', '192.0.2.1', false],
  ['127.0.0.1', '', '', false],
  ['127.0.0.1', '', '[evil.example]', false],
  ['127.0.0.1', 'build.example, Other.example:1', 'build.example:4000', true],
  ['127.0.0.1', 'build.example, Other.example:1', 'OTHER.example', true],
  ['127.0.0.1', 'build.example', 'x.build.example', false],
  ['127.0.0.1', '*', 'evil.example', true],
  ['192.0.2.1', '', '192.0.2.1:4000', true],
  ['192.0.2.1', '', '192.0.2.2:4000', false],
  ['192.0.2.1', '', 'localhost', true],
  ['2001:db8::1', '', '[2001:db8::1]:4000', true],
  ['0.0.0.0', '', '198.51.100.7:4000', true],
  ['0.0.0.0', '', 'evil.example', false],
  ['::', '', '[2001:db8::5]:4000', true],
])('listening on %s with the allowed hosts %j accepts the host %j: %s', (listen, allowed, host, accepted) => {
  expect(createHostCheck(listen, allowed)(host)).toBe(accepted);
});
