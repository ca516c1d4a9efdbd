import { chmodSync, mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { PassThrough } from 'node:stream';
import { afterAll, expect, test } from 'vitest';
import { printSettings } from '../../../src/cli/config-command.ts';
import { userConfigFile } from '../../../src/cli/config-file.ts';
import { RunError, UsageError } from '../../../src/cli/failures.ts';
import { parseServerArguments } from '../../../src/cli/server-arguments.ts';
import { loadSettings } from '../../../src/cli/settings.ts';
import { DEFAULT_CONFIG } from '../../../src/server/config/config.ts';
import { Workspace } from './run-cli.ts';

const workspace = new Workspace();
afterAll(() => workspace.close());

const load = (argv: readonly string[], env: Record<string, string> = {}) =>
  loadSettings(parseServerArguments(argv), { HOME: join(workspace.path, 'no-home'), ...env });

/** What `exec-server config` prints. */
async function printed(...argv: string[]): Promise<string> {
  const env = { HOME: join(workspace.path, 'no-home') };
  return (await printSettings(parseServerArguments(['config', ...argv]), { env, stderr: new PassThrough() }))
    .text;
}

test.each([
  [{ HOME: '/home/me' }, '/home/me/.config/exec-server/config.toml'],
  [{ HOME: '/home/me', XDG_CONFIG_HOME: '/etc/me' }, '/etc/me/exec-server/config.toml'],
  [{ HOME: '/home/me', XDG_CONFIG_HOME: 'relative' }, '/home/me/.config/exec-server/config.toml'],
  [{ HOME: '/home/me', XDG_CONFIG_HOME: '' }, '/home/me/.config/exec-server/config.toml'],
])('%j has its settings file at %s', (env, path) => {
  expect(userConfigFile(env, 'config.toml')).toBe(path);
});

test('prefers the file of --config to EXEC_SERVER_CONFIG, and that to the file in the home directory', async () => {
  const home = join(workspace.path, 'home');
  const own = userConfigFile({ HOME: home }, 'config.toml')!;
  mkdirSync(dirname(own), { recursive: true });
  workspace.file('home/.config/exec-server/config.toml', 'maxConnections = 1');
  const variable = workspace.file('variable.toml', 'maxConnections = 2');
  const flag = workspace.file('flag.toml', 'maxConnections = 3');

  expect(await load(['--config', flag], { HOME: home, EXEC_SERVER_CONFIG: variable })).toMatchObject({
    file: flag,
    config: { maxConnections: 3 },
  });
  expect(await load([], { HOME: home, EXEC_SERVER_CONFIG: variable })).toMatchObject({
    file: variable,
    config: { maxConnections: 2 },
  });
  expect(await load([], { HOME: home, EXEC_SERVER_CONFIG: '' })).toMatchObject({
    file: own,
    config: { maxConnections: 1 },
  });
  expect(await load([])).toMatchObject({ file: null, config: DEFAULT_CONFIG });
});

test('reads numbers, strings with units and booleans from a file', async () => {
  const path = workspace.file(
    'full.toml',
    '# a comment\nlisten = "ws://[::1]:0"\npingIntervalMs = "10s"\nmaxMessageBytes = 2_048\nnativeSpawn = false\n',
  );
  const { config, sources, address } = await load(['--config', path]);
  expect(config).toEqual({
    ...DEFAULT_CONFIG,
    listen: 'ws://[::1]:0',
    pingIntervalMs: 10_000,
    maxMessageBytes: 2_048,
    nativeSpawn: false,
  });
  expect(sources.pingIntervalMs).toEqual({ source: 'file', detail: path });
  expect(address).toEqual({ kind: 'websocket', secure: false, host: '::1', port: 0 });
});

test.each([
  ['absent.toml', null, 'it does not exist (create it, or name another with --config)'],
  ['', null, 'it is a directory (name a file with --config)'],
  ['big.toml', '#'.repeat(1024 * 1024 + 1), 'it is larger than 1 MiB (name another with --config)'],
])('reports why %j cannot be read', async (name, contents, reason) => {
  const path = contents === null ? join(workspace.path, name) : workspace.file(name, contents);
  const message = `cannot read the config file ${path}: ${reason}`;
  for (const attempt of [load(['--config', path]), load([], { EXEC_SERVER_CONFIG: path })]) {
    await expect(attempt).rejects.toThrow(expect.objectContaining({ name: 'RunError', message }));
  }
});

test.skipIf(process.getuid?.() === 0)('reports a file without read permission', async () => {
  const path = workspace.file('secret.toml', '');
  chmodSync(path, 0);
  await expect(load(['--config', path])).rejects.toThrow('permission denied');
});

test.each([
  ['listen = ', ':1:10: not valid TOML: '],
  ['maxConnections = 1\nmaxConnections = 2', ':2:'],
  ['maxConnections = 99999999999999999999', 'not valid TOML'],
])('rejects invalid TOML: %j', async (contents, message) => {
  const path = workspace.file('broken.toml', contents);
  const attempt = load(['--config', path]);
  await expect(attempt).rejects.toThrow(UsageError);
  await expect(attempt).rejects.toThrow(message);
  await expect(attempt).rejects.toThrow(/^[^\n]+$/);
});

test('rejects a file that is not UTF-8', async () => {
  const path = workspace.file('binary.toml', new Uint8Array([0xff, 0xfe]));
  await expect(load(['--config', path])).rejects.toThrow('the file is not UTF-8 text');
});

test.each([
  [['--transport', 'stdio'], {}, 'stdio', 'flag', '--transport stdio'],
  [['--transport', 'off'], {}, 'off', 'flag', '--transport off'],
  [['--transport', 'ws'], {}, DEFAULT_CONFIG.listen, 'default', ''],
  [
    ['--transport', 'ws'],
    { EXEC_SERVER_LISTEN: 'ws://[::1]:7' },
    'ws://[::1]:7',
    'environment',
    'EXEC_SERVER_LISTEN',
  ],
  [['--transport', 'ws'], { EXEC_SERVER_LISTEN: 'stdio' }, DEFAULT_CONFIG.listen, 'flag', '--transport ws'],
  [['--transport', 'stdio', '--listen', 'stdio://'], {}, 'stdio://', 'flag', '--listen'],
  [['--transport', 'ws', '--listen', 'ws://0.0.0.0:1'], {}, 'ws://0.0.0.0:1', 'flag', '--listen'],
  [['--port', '4000'], {}, 'ws://127.0.0.1:4000', 'flag', '--port'],
  [['-p', '4000'], { EXEC_SERVER_LISTEN: 'stdio' }, 'ws://127.0.0.1:4000', 'flag', '--port'],
  [['--listen', '4000'], {}, 'ws://127.0.0.1:4000', 'flag', '--listen'],
  [[], { EXEC_SERVER_LISTEN: '4000' }, 'ws://127.0.0.1:4000', 'environment', 'EXEC_SERVER_LISTEN'],
  [['-p', '4443', '--tls-cert', 'c'], {}, 'wss://127.0.0.1:4443', 'flag', '--port'],
])('%j with %j listens on %s', async (argv, env, listen, source, detail) => {
  const settings = await load(argv, env);
  expect(settings.config.listen).toBe(listen);
  expect(settings.sources.listen).toEqual({ source, detail });
});

test.each([
  [['--transport', 'stdio', '--listen', 'ws://127.0.0.1:0']],
  [['--transport', 'ws', '--listen', 'stdio']],
  [['--transport', 'off', '--listen', 'stdio']],
])('rejects %j, where --transport contradicts --listen', async (argv) => {
  const message = `--transport ${argv[1]} contradicts --listen ${argv[3]}; give only one of them`;
  await expect(load(argv)).rejects.toThrow(expect.objectContaining({ name: 'UsageError', message }));
});

test.each([
  [['--listen', 'ws://example.com:0'], {}, '`ws://IP:PORT`'],
  [['--listen', '70000'], {}, '`ws://IP:PORT`'],
  [[], { EXEC_SERVER_LISTEN: 'STDIO' }, '(environment EXEC_SERVER_LISTEN)'],
])('rejects the listen URL of %j with %j', async (argv, env, end) => {
  const attempt = load(argv, env);
  await expect(attempt).rejects.toThrow(RunError);
  await expect(attempt).rejects.toThrow(end);
});

test('prints an aligned table with the source of each value', async () => {
  const table = await printed('--no-native-spawn', '--snapshot-head-bytes', '2048');
  expect(table).toMatch(/^KEY {31}VALUE {13}SOURCE +VARIABLE$/m);
  expect(table).toMatch(/^nativeSpawn {23}false {13}flag --no-native-spawn +EXEC_SERVER_NATIVE_SPAWN$/m);
  expect(table).toMatch(
    /^snapshotHeadBytes {17}2KiB {14}flag --snapshot-head-bytes +EXEC_SERVER_SNAPSHOT_HEAD_BYTES$/m,
  );
  expect(table).toMatch(/^pingIntervalMs {20}30s {15}default +EXEC_SERVER_PING_INTERVAL_MS$/m);
  expect(table.split('\n')).toHaveLength(Object.keys(DEFAULT_CONFIG).length + 2);
});

test('prints every value and its source as JSON', async () => {
  const path = workspace.file('json.toml', 'logLevel = "info"');
  const { file, settings } = JSON.parse(
    await printed('--json', '--config', path, '--detached-session-ttl', 'none'),
  );
  expect(file).toBe(path);
  expect(settings.logLevel).toMatchObject({ value: 'info', source: 'file', detail: path });
  expect(settings.detachedSessionTtlMs).toMatchObject({ value: 'none', source: 'flag' });
  expect(settings.maxConnections).toMatchObject({ value: 1024, source: 'default', detail: '' });
  expect(Object.keys(settings)).toEqual(Object.keys(DEFAULT_CONFIG));
});
