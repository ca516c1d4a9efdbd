import { describe, expect, test } from 'vitest';
import { DEFAULT_CONFIG } from '../../../../src/server/config/config.ts';
import {
  ConfigError,
  type ConfigInputs,
  describeSource,
  resolveConfig,
} from '../../../../src/server/config/resolve.ts';

const NOTHING: ConfigInputs = { flags: {}, overrides: {}, env: {}, toml: null };
const file = (values: Record<string, unknown>) => ({ path: '/etc/exec-server.toml', values });

test('returns the defaults without any source', () => {
  const { config, sources } = resolveConfig(NOTHING);
  expect(config).toEqual(DEFAULT_CONFIG);
  expect(Object.isFrozen(config)).toBe(true);
  expect(new Set(Object.values(sources).map(describeSource))).toEqual(new Set(['default']));
});

const flags = { concurrentRequests: '4' };
const env = { EXEC_SERVER_CONCURRENT_REQUESTS: '3' };
const toml = file({ concurrentRequests: 2 });

test.each<[string, Partial<ConfigInputs>, number, string]>([
  ['flag', { flags, env, toml }, 4, 'flag --concurrent-requests'],
  ['-c', { overrides: { concurrentRequests: '5' }, env, toml }, 5, 'flag -c concurrentRequests'],
  ['environment', { env, toml }, 3, 'environment EXEC_SERVER_CONCURRENT_REQUESTS'],
  ['file', { toml }, 2, 'file /etc/exec-server.toml'],
  ['flag before file', { flags, toml }, 4, 'flag --concurrent-requests'],
  ['default', {}, DEFAULT_CONFIG.concurrentRequests, 'default'],
])('the value of the %s wins', (_name, inputs, value, source) => {
  const { config, sources } = resolveConfig({ ...NOTHING, ...inputs });
  expect(config.concurrentRequests).toBe(value);
  expect(describeSource(sources.concurrentRequests)).toBe(source);
});

test('chooses the source of each key separately', () => {
  const { config, sources } = resolveConfig({
    ...NOTHING,
    flags: { nativeSpawn: false, requireWriteId: true },
    env: { EXEC_SERVER_LOG_LEVEL: 'info', EXEC_SERVER_DETACHED_SESSION_TTL_MS: '5m' },
    toml: file({ snapshotHeadBytes: '1KiB', pingIntervalMs: 1_000, acceptNativePaths: true }),
  });
  expect(config).toEqual({
    ...DEFAULT_CONFIG,
    nativeSpawn: false,
    requireWriteId: true,
    logLevel: 'info',
    detachedSessionTtlMs: 300_000,
    snapshotHeadBytes: 1_024,
    pingIntervalMs: 1_000,
    acceptNativePaths: true,
  });
  expect(sources.nativeSpawn).toEqual({ source: 'flag', detail: '--no-native-spawn' });
  expect(sources.requireWriteId).toEqual({ source: 'flag', detail: '--require-write-id' });
});

test.each<[string, Partial<ConfigInputs>]>([
  ['flag', { flags: { detachedSessionTtlMs: 'none' } }],
  ['variable', { env: { EXEC_SERVER_DETACHED_SESSION_TTL_MS: 'none' } }],
  ['file', { toml: file({ detachedSessionTtlMs: 'none' }) }],
])('reads none from a %s as no limit', (_name, inputs) => {
  const { config } = resolveConfig({ ...NOTHING, ...inputs });
  expect(config.detachedSessionTtlMs).toBe(Number.POSITIVE_INFINITY);
});

test('ignores empty variables and variables with another prefix', () => {
  const variables = { EXEC_SERVER_LISTEN: '', EXEC_SERVERX: '1', PATH: '/bin', EXEC_SERVER_GONE: undefined };
  expect(resolveConfig({ ...NOTHING, env: variables }).config).toEqual(DEFAULT_CONFIG);
});

test('accepts EXEC_SERVER_ variables that are not settings', () => {
  const variables = { EXEC_SERVER_CONFIG: 'x', EXEC_SERVER_URL: 'y', EXEC_SERVER_REFERENCE: 'z' };
  expect(resolveConfig({ ...NOTHING, env: variables }).config).toEqual(DEFAULT_CONFIG);
});

test.each<[Partial<ConfigInputs>, string, string]>([
  [
    { flags: { concurrentRequests: '0' } },
    'concurrentRequests',
    "concurrentRequests (flag --concurrent-requests): '0' is below 1; allowed: a whole number from 1 to 2147483647",
  ],
  [
    { env: { EXEC_SERVER_PING_INTERVAL_MS: 'soon' } },
    'pingIntervalMs',
    "pingIntervalMs (environment EXEC_SERVER_PING_INTERVAL_MS): 'soon' is not a duration; " +
      'allowed: milliseconds, or a number with ms, s, m or h, from 10ms to 168h',
  ],
  [
    { flags: { closedProcessRetentionMs: 'none' } },
    'closedProcessRetentionMs',
    "closedProcessRetentionMs (flag --closed-process-retention): 'none' is not a duration; " +
      'allowed: milliseconds, or a number with ms, s, m or h, from 0 to 168h',
  ],
  [
    { flags: { detachedSessionTtlMs: 'never' } },
    'detachedSessionTtlMs',
    "detachedSessionTtlMs (flag --detached-session-ttl): 'never' is not a duration; " +
      'allowed: milliseconds, or a number with ms, s, m or h, from 0 to 168h; or none',
  ],
  [
    { toml: file({ maxMessageBytes: '1TiB' }) },
    'maxMessageBytes',
    "maxMessageBytes (file /etc/exec-server.toml): '1TiB' is not a size; " +
      'allowed: bytes, or a number with KiB, MiB or GiB, from 1KiB to 256MiB',
  ],
  [
    { flags: { nativeSpawn: 'maybe' } },
    'nativeSpawn',
    "nativeSpawn (flag --native-spawn): 'maybe' is not true or false; allowed: true or false",
  ],
  [
    { flags: { logLevel: 'loud' } },
    'logLevel',
    "logLevel (flag --log-level): 'loud' is not one of the choices; allowed: debug, info, warn, error",
  ],
  [
    { toml: file({ listen: 4000 }) },
    'listen',
    'listen (file /etc/exec-server.toml): the number 4000 is not a string; allowed: `ws://IP:PORT`, `wss://IP:PORT`, `unix:///PATH`, `stdio` or `off`',
  ],
  [
    { toml: file({ logLevel: { level: 'info' } }) },
    'logLevel',
    'logLevel (file /etc/exec-server.toml): an object is not one of the choices; allowed: debug, info, warn, error',
  ],
  [
    { flags: { concurrentRequests: '4' }, toml: file({ concurrentRequests: 'overridden' }) },
    'concurrentRequests',
    "concurrentRequests (file /etc/exec-server.toml): 'overridden' is not a whole number; " +
      'allowed: a whole number from 1 to 2147483647',
  ],
  [
    { toml: file({ detachedSessionTtl: '5m' }) },
    'detachedSessionTtl',
    "unknown setting 'detachedSessionTtl' (file /etc/exec-server.toml); did you mean 'detachedSessionTtlMs'?",
  ],
  [
    { toml: file({ colour: 'red' }) },
    'colour',
    "unknown setting 'colour' (file /etc/exec-server.toml); 'exec-server config' lists the valid ones",
  ],
  [
    { env: { EXEC_SERVER_LISTN: 'stdio' } },
    'EXEC_SERVER_LISTN',
    "unknown variable 'EXEC_SERVER_LISTN' in the environment; did you mean 'EXEC_SERVER_LISTEN'?",
  ],
  [
    { flags: { pingIntervalMs: '10m' } },
    'peerSilenceTimeoutMs',
    "peerSilenceTimeoutMs (default): '5m' must be longer than pingIntervalMs (flag --ping-interval): '10m'; " +
      'otherwise idle peers are dropped before they are pinged',
  ],
])('rejects %j', (inputs, key, message) => {
  const resolve = () => resolveConfig({ ...NOTHING, ...inputs });
  expect(resolve).toThrow(ConfigError);
  expect(resolve).toThrow(expect.objectContaining({ key, message }));
});

test('reports names of Object.prototype as unknown settings', () => {
  const values = JSON.parse('{"__proto__": 1, "constructor": 2}');
  expect(() => resolveConfig({ ...NOTHING, toml: file(values) })).toThrow("unknown setting '__proto__'");
});

describe('variables that begin like ours', () => {
  const unknown = (env: Record<string, string>) => resolveConfig({ ...NOTHING, env }).unknownVariables;

  test.each([
    ['EXEC_SERVER_SERVICE_HOST', '10.0.0.1'],
    ['EXEC_SERVER_SERVICE_PORT', '4000'],
    ['EXEC_SERVER_SERVICE_PORT_WEBSOCKET', '4000'],
    ['EXEC_SERVER_PORT', 'tcp://10.0.0.1:4000'],
    ['EXEC_SERVER_PORT_4000_TCP', 'tcp://10.0.0.1:4000'],
    ['EXEC_SERVER_PORT_4000_TCP_PROTO', 'tcp'],
    ['EXEC_SERVER_PORT_4000_TCP_PORT', '4000'],
    ['EXEC_SERVER_PORT_4000_TCP_ADDR', '10.0.0.1'],
    ['EXEC_SERVER_RELAY_SERVICE_HOST', '10.0.0.1'],
    ['EXEC_SERVER_RELAY_PORT', 'tcp://10.0.0.1:8080'],
  ])('Kubernetes sets %s, which has no effect', (name, value) => {
    expect(unknown({ [name]: value })).toEqual([]);
  });

  test('are reported when they resemble no setting', () => {
    expect(unknown({ EXEC_SERVER_COLOUR: '1', EXEC_SERVER_LOG_LEVEL: 'info', COLOUR: '1' })).toEqual([
      'EXEC_SERVER_COLOUR',
    ]);
  });

  test('EXEC_SERVER_PORT with a number is not ignored', () => {
    expect(() => unknown({ EXEC_SERVER_PORT: '4000' })).toThrow('write EXEC_SERVER_LISTEN=PORT');
  });
});
