import { PassThrough } from 'node:stream';
import { expect, test } from 'vitest';
import type { Host } from '../../../src/cli/commands.ts';
import { mcpCommand } from '../../../src/cli/mcp/mcp-command.ts';

const host = () =>
  ({
    env: { PATH: process.env.PATH, HOME: '/nonexistent', XDG_CONFIG_HOME: '/nonexistent' },
    stdin: new PassThrough(),
    stdout: new PassThrough(),
    stderr: new PassThrough(),
    isTerminal: false,
    onDrainSignal: () => {},
    surviveHangup: () => {},
    onSignal: () => {},
  }) as unknown as Host;

test.each<[readonly string[], RegExp]>([
  [['--sandbox', 'some'], /--sandbox: 'some' is not one of read-only, workspace-write, off/],
  [['--ws-auth', 'capability-token'], /--ws-auth needs --http/],
  [['--http', 'localhost'], /--http: 'localhost' is not IP:PORT/],
  [['--http', '0.0.0.0:0'], /^http:\/\/0\.0\.0\.0:0 can be reached from other machines.*--ws-auth/],
  [['--http', '127.0.0.1:0', '--tls-cert', 'x'], /--tls-key/],
  [['--http', '127.0.0.1:0', '--ws-auth', 'some'], /--ws-auth/],
  [['-E', 'local', '-E', 'local'], /'local' is given twice/],
  [['-E', 'nowhere'], /unknown environment 'nowhere'/],
  [['-E', 'local', '-E', 'ws://127.0.0.1:9', '--token-file', 'x'], /--token-file is for a single/],
  [['--root', 'missing'], /--root 'missing' is not a directory/],
  [['-E', 'ws://127.0.0.1:9', '--root', 'here'], /must be an absolute path/],
  [['--root', 'gpu:/srv'], /-E does not name 'gpu'/],
  [['serve'], /unexpected argument 'serve'/],
])('refuses %j', async (args, expected) => {
  await expect(mcpCommand(args, host())).rejects.toThrow(expected);
});
