import { expect, test } from 'vitest';
import { publicUrl } from '../../../src/cli/environments/public-address.ts';

test.each([
  ['ws://host:4000/secret?key=secret', 'ws://host:4000'],
  ['wss://[::1]:4000', 'wss://[::1]:4000'],
  ['ssh://me@build.example:22/secret', 'ssh://build.example:22'],
  ['unix:///home/me/exec.sock', 'unix://…/exec.sock'],
  ['https://relay.example/base', 'https://relay.example'],
  ['ssh://no host/secret', 'ssh:…'],
])('%s is %s for other people', (url, expected) => {
  expect(publicUrl(url)).toBe(expected);
});
