import { expect, test } from 'vitest';
import { UsageError } from '../../../src/cli/failures.ts';
import { parseServerArguments } from '../../../src/cli/server-arguments.ts';
import { CONFIG_OPTIONS } from '../../../src/server/config/config.ts';

test('serves when the command line is empty', () => {
  expect(parseServerArguments([])).toEqual({
    command: 'serve',
    settings: {},
    overrides: {},
    codexConfig: {},
    warnings: [],
    signing: null,
    transport: null,
    port: null,
    configFile: null,
    urlFile: null,
    pidFile: null,
    remote: null,
    name: null,
    executorCredentialStdin: false,
    useAgentIdentityAuth: false,
    exitOnStdinClose: false,
    json: false,
  });
});

test.each([
  [['serve'], 'serve'],
  [['config'], 'config'],
  [['--listen', 'stdio', 'config'], 'config'],
  [['--help'], 'help'],
  [['config', '-h', '--nope'], 'help'],
  [['--version'], 'version'],
  [['-V'], 'version'],
])('%j selects %s', (argv, command) => {
  expect(parseServerArguments(argv).command).toBe(command);
});

test.each([
  [['--listen', 'stdio'], { listen: 'stdio' }],
  [['--listen=ws://[::1]:0'], { listen: 'ws://[::1]:0' }],
  [['--listen='], { listen: '' }],
  [['--listen', 'a=b'], { listen: 'a=b' }],
  [['--concurrent-requests', '-1'], { concurrentRequests: '-1' }],
  [['--detached-session-ttl', '5m'], { detachedSessionTtlMs: '5m' }],
  [['--require-write-id'], { requireWriteId: true }],
  [['--require-write-id=false'], { requireWriteId: 'false' }],
  [['--no-native-spawn', '--no-allow-direct-exec'], { nativeSpawn: false, allowDirectExec: false }],
])('%j sets %j', (argv, settings) => {
  expect(parseServerArguments(argv).settings).toEqual(settings);
});

test.each(CONFIG_OPTIONS)('$flag sets $key', ({ key, flag, type }) => {
  const [argv, value] = type === 'boolean' ? [[flag], true] : [[flag, 'x'], 'x'];
  expect(parseServerArguments(argv).settings).toEqual({ [key]: value });
});

test('parses flags that are not settings', () => {
  const argv = ['config', '--json', '--transport', 'ws', '--config=c', '--url-file', 'u', '--pid-file', 'p'];
  expect(parseServerArguments(argv)).toMatchObject({
    json: true,
    transport: 'ws',
    configFile: 'c',
    urlFile: 'u',
    pidFile: 'p',
    remote: null,
    name: null,
    executorCredentialStdin: false,
    useAgentIdentityAuth: false,
    exitOnStdinClose: false,
    settings: {},
  });
});

test.each([
  [['--nope'], "unknown flag '--nope'; did you mean '--name'?"],
  [['--nope=1'], "unknown flag '--nope'; did you mean '--name'?"],
  [['--lisen', 'stdio'], "unknown flag '--lisen'; did you mean '--listen'?"],
  [['--json', 'token'], 'token must be the first argument'],
  [['--name', 'x'], '--name needs --remote'],
  [['--executor-credential-stdin'], '--executor-credential-stdin needs --remote'],
  [['--use-agent-identity-auth'], '--use-agent-identity-auth needs --remote'],
  [
    ['--remote', 'https://h', '--executor-credential-stdin', '--use-agent-identity-auth'],
    '--executor-credential-stdin and --use-agent-identity-auth cannot be combined',
  ],
  [['-v'], "unknown flag '-v'; did you mean '-V'?"],
  [['-x'], "unknown flag '-x'; 'exec-server serve --help' lists them"],
  [['-'], "unknown flag '-'; 'exec-server serve --help' lists them"],
  [
    ['serve', '--', 'x'],
    "unexpected argument 'x'; a server starts no program itself, 'exec-server run' does",
  ],
  [['--', 'x'], "unknown command 'x'; 'exec-server --help' lists the commands"],
  [['--', '--listen'], "unknown command '--listen'; 'exec-server --help' lists the commands"],
  [['--no-listen'], "unknown flag '--no-listen'; 'exec-server serve --help' lists them"],
  [['--listen'], '--listen needs a value'],
  [['--listen', '--json'], '--listen needs a value'],
  [['--config', ''], '--config needs a value'],
  [['--pid-file='], '--pid-file needs a value'],
  [['--json=1', 'config'], '--json takes no value'],
  [['--no-native-spawn=true'], '--no-native-spawn takes no value'],
  [['--listen', 'a', '--listen', 'b'], '--listen is given more than once'],
  [['--native-spawn', '--no-native-spawn'], '--native-spawn is given more than once'],
  [['--json'], '--json is for config and doctor only'],
  [['--transport', 'tcp'], "--transport: 'tcp' is not one of the choices; allowed: ws, stdio, off"],
  [['explode'], "unknown command 'explode'; 'exec-server --help' lists the commands"],
  [['conifg'], "unknown command 'conifg'; did you mean 'config'?"],
  [[''], "unknown command ''; 'exec-server --help' lists the commands"],
  [['--port', '65536'], "--port: '65536' is not a port; allowed: 0 to 65535"],
  [['-p', 'http'], "--port: 'http' is not a port; allowed: 0 to 65535"],
  [['-p', '1', '--listen', '2'], '--port contradicts --listen; give only one of them'],
  [['-p', '1', '--transport', 'ws'], '--port contradicts --transport; give only one of them'],
  [['config', 'listen'], "unexpected argument 'listen'"],
])('rejects %j', (argv, message) => {
  expect(() => parseServerArguments(argv)).toThrow(UsageError);
  expect(() => parseServerArguments(argv)).toThrow(expect.objectContaining({ message }));
});

test('a named command takes no second command', () => {
  expect(parseServerArguments(['--listen', 'stdio'], 'config').command).toBe('config');
  expect(() => parseServerArguments(['config'], 'serve')).toThrow("unexpected argument 'config'");
});
