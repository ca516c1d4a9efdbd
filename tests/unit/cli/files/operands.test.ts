import { expect, test } from 'vitest';
import { parseOperand } from '../../../../src/cli/files/operands.ts';

test.each([
  ['gpu:/srv/x', 'gpu', '/srv/x'],
  ['gpu:', 'gpu', ''],
  ['gpu:a:b', 'gpu', 'a:b'],
  [':/srv/x', '', '/srv/x'],
  ['local:~/x', 'local', '~/x'],
  ['ws://127.0.0.1:4000:/tmp/x', 'ws://127.0.0.1:4000', '/tmp/x'],
  ['wss://host:rel/x', 'wss://host', 'rel/x'],
  ['ws://[::1]:4000:/x', 'ws://[::1]:4000', '/x'],
  ['ssh://me@host:work', 'ssh://me@host', 'work'],
  ['ssh://me@host:22:work', 'ssh://me@host:22', 'work'],
  ['ssh://host:22:', 'ssh://host:22', ''],
  ['unix:///run/x.sock:/tmp/x', 'unix:///run/x.sock', '/tmp/x'],
  ['ws://host:4000:5000', 'ws://host:4000', '5000'],
])('%s is a path of an environment', (text, environment, path) => {
  expect(parseOperand(text, 'cp')).toEqual({ text, environment, path });
});

test.each(['file', './a:b', '/srv/a:b', 'dir/a:b', '-', '../x:y', '.'])(
  '%s is a path of this machine',
  (text) => {
    expect(parseOperand(text, 'cp')).toEqual({ text, environment: null, path: text });
  },
);

test.each(['', 'ws://host:4000', 'wss://host', 'unix:///run/x.sock', 'ssh://host:22'])(
  '%j is refused',
  (text) => {
    expect(() => parseOperand(text, 'cp')).toThrow(/must not be empty|has no path; write URL:PATH/);
  },
);
