import { expect, test } from 'vitest';
import { RunError, UsageError } from '../../../src/cli/failures.ts';
import { parseServerArguments } from '../../../src/cli/server-arguments.ts';

const REMOTE = ['--remote', 'https://registry.example'];
const DIRECT = [...REMOTE, '--remote-transport', 'direct', '--aws-sigv4'];

test('takes the flags of the direct transport', () => {
  expect(parseServerArguments(REMOTE).signing).toBe(null);
  expect(parseServerArguments([...REMOTE, '--remote-transport', 'noise']).signing).toBe(null);
  expect(parseServerArguments(DIRECT).signing).toEqual({ profile: null, region: null, service: null });
  const all = [...DIRECT, '--aws-profile', 'p', '--aws-region', 'r', '--aws-service', 's'];
  expect(parseServerArguments(all).signing).toEqual({ profile: 'p', region: 'r', service: 's' });
});

test.each<[string[], string]>([
  [[...REMOTE, '--remote-transport', 'direct'], '--remote-transport direct needs --aws-sigv4'],
  [[...REMOTE, '--aws-profile', 'p'], '--aws-profile needs --aws-sigv4'],
  [[...REMOTE, '--aws-region', 'r'], '--aws-region needs --aws-sigv4'],
  [[...REMOTE, '--aws-service', 's'], '--aws-service needs --aws-sigv4'],
  [['--remote-transport', 'noise'], '--remote-transport needs --remote'],
  [['--aws-sigv4'], '--aws-sigv4 needs --remote'],
  [
    [...DIRECT, '--executor-credential-stdin'],
    '--aws-sigv4 contradicts --executor-credential-stdin; give only one',
  ],
  [
    [...REMOTE, '--remote-transport', 'udp'],
    "--remote-transport: 'udp' is not one of the choices; allowed: noise, direct",
  ],
  [[...DIRECT, '--aws-sigv4'], '--aws-sigv4 is given more than once'],
  [
    ['--linux-sandbox-pid-namespace', 'share'],
    "--linux-sandbox-pid-namespace: 'share' is not one of the choices; allowed: isolate, inherit",
  ],
  [['--config', 'a.toml', '--config', 'b.toml'], '--config names more than one file'],
  [
    ['-c', 'logLevel=info', '--log-level', 'debug'],
    '--log-level contradicts -c logLevel; give only one of them',
  ],
])('%j is bad usage', (argv, message) => {
  expect(() => parseServerArguments(argv)).toThrow(new UsageError(message));
});

test.each<[string[], RegExp]>([
  [[...REMOTE, '--aws-sigv4'], /^--aws-sigv4 needs --remote-transport direct$/],
  [
    ['--linux-sandbox-pid-namespace', 'inherit'],
    /inherit is not supported: a sandboxed program could see and signal/,
  ],
  [['--strict-config', '-c', 'model=o3'], /^--strict-config: -c model has no effect/],
  [['--strict-config', '--enable', 'hooks'], /^--strict-config: the feature 'hooks' has no effect/],
])('%j is refused', (argv, message) => {
  expect(() => parseServerArguments(argv)).toThrow(RunError);
  expect(() => parseServerArguments(argv)).toThrow(message);
});

test('-c sets a setting by its key, and --config also names a file', () => {
  const { overrides, configFile } = parseServerArguments([
    ...['-c', 'logLevel="debug"', '--config', 'maxConnections = 7', '-cmetrics=true'],
    ...['--config', './a=b/settings.toml'],
  ]);
  expect(overrides).toEqual({ logLevel: 'debug', maxConnections: '7', metrics: 'true' });
  expect(configFile).toBe('./a=b/settings.toml');
});

test('flags without an effect are accepted with a warning', () => {
  const { warnings, overrides } = parseServerArguments([
    ...['-c', 'model="o3"', '--enable', 'hooks', '--disable', 'shell_snapshot', '--disable', 'hooks'],
    ...['--linux-sandbox-pid-namespace', 'isolate', '--proxy-private-ips-via-upstream'],
  ]);
  expect(overrides).toEqual({});
  expect(warnings).toEqual([
    '-c model has no effect: it is not a setting of this program',
    "the feature 'hooks' has no effect: features belong to codex, not to this program",
    "the feature 'shell_snapshot' has no effect: features belong to codex, not to this program",
    "the feature 'hooks' has no effect: features belong to codex, not to this program",
    expect.stringMatching(/^--proxy-private-ips-via-upstream has no effect: the proxy of a program connects/),
  ]);
  expect(parseServerArguments(['--strict-config', '-c', 'logLevel=info']).warnings).toEqual([]);
});

test('-c sets the keys of codex that decide how to sign in', () => {
  const values = ['-c', 'forced_login_method="api"', '-c', 'chatgpt_base_url = https://chatgpt.com'];
  const { codexConfig, warnings } = parseServerArguments([...REMOTE, ...values]);
  expect(codexConfig).toEqual({
    forced_login_method: '"api"',
    chatgpt_base_url: 'https://chatgpt.com',
  });
  expect(warnings).toEqual([]);
  for (const argv of [values, [...DIRECT, ...values]]) {
    expect(parseServerArguments(argv)).toMatchObject({ codexConfig: {}, warnings: { length: 2 } });
  }
});
