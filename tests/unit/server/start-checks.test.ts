import { describe, expect, test } from 'vitest';
import { parseListenUrl } from '../../../src/listener/listen-url.ts';
import { StartError } from '../../../src/listener/start-error.ts';
import { CONFIG_OPTIONS, DEFAULT_CONFIG, type ExecServerConfig } from '../../../src/server/config/config.ts';
import { refuseUnenforceableLimits, refuseUnsafeAccess } from '../../../src/server/start-checks.ts';

describe('refuseUnsafeAccess', () => {
  function start(settings: Partial<ExecServerConfig>): void {
    const config = { ...DEFAULT_CONFIG, ...settings };
    refuseUnsafeAccess(config, parseListenUrl(config.listen));
  }

  const DIGEST = 'aB'.repeat(32);
  const capability = { wsAuth: 'capability-token' } as const;
  const signed = { wsAuth: 'signed-bearer-token' } as const;

  test.each<[string, Partial<ExecServerConfig>, string]>([
    [
      'a token without an auth mode',
      { wsTokenFile: 't' },
      'websocket auth flags require `--ws-auth capability-token` or `--ws-auth signed-bearer-token`',
    ],
    [
      'a clock skew without an auth mode',
      { wsMaxClockSkewSeconds: 1 },
      'websocket auth flags require `--ws-auth capability-token` or `--ws-auth signed-bearer-token`',
    ],
    [
      'capability tokens without a token',
      capability,
      '`--ws-token-file` or `--ws-token-sha256` is required when `--ws-auth capability-token` is set',
    ],
    [
      'a token file and a digest',
      { ...capability, wsTokenFile: 't', wsTokenSha256: DIGEST },
      '`--ws-token-file` and `--ws-token-sha256` are mutually exclusive',
    ],
    [
      'a short digest',
      { ...capability, wsTokenSha256: DIGEST.slice(1) },
      '--ws-token-sha256 must be a 64-character hex SHA-256 digest',
    ],
    [
      'options of signed tokens for a capability token',
      { ...capability, wsTokenSha256: DIGEST, wsIssuer: 'me' },
      '`--ws-shared-secret-file`, `--ws-issuer`, `--ws-audience`, and `--ws-max-clock-skew-seconds` require `--ws-auth signed-bearer-token`',
    ],
    [
      'a revocation list for a capability token',
      { ...capability, wsTokenSha256: DIGEST, revokedTokens: 'r' },
      '`--revoked-tokens` requires `--ws-auth signed-bearer-token`: only signed tokens have ids',
    ],
    [
      'signed tokens without a secret',
      signed,
      '`--ws-shared-secret-file` is required when `--ws-auth signed-bearer-token` is set',
    ],
    [
      'a capability token for signed tokens',
      { ...signed, wsSharedSecretFile: 's', wsTokenFile: 't' },
      '`--ws-token-file` and `--ws-token-sha256` require `--ws-auth capability-token`, not `signed-bearer-token`',
    ],
    [
      'authentication on stdio',
      { ...capability, wsTokenSha256: DIGEST, listen: 'stdio' },
      'WebSocket auth requires a WebSocket listener, not stdio',
    ],
  ])('refuses %s', (_, settings, message) => {
    expect(() => start(settings)).toThrow(message);
  });

  test.each(['ws://0.0.0.0:0', 'ws://[::]:0', 'ws://192.0.2.1:4000', 'wss://10.0.0.1:1'])(
    'refuses %s without authentication and names the options that fix it',
    (listen) => {
      expect(() => start({ listen })).toThrow(/--ws-auth capability-token.*--insecure-no-auth/);
    },
  );

  test.each<Partial<ExecServerConfig>>([
    { listen: 'ws://127.0.0.1:0' },
    { listen: 'ws://127.8.8.8:0' },
    { listen: 'ws://[::1]:0' },
    { listen: 'unix:///run/x.sock' },
    { listen: 'stdio' },
    { listen: 'off' },
    { listen: 'ws://0.0.0.0:0', insecureNoAuth: true },
    { listen: 'ws://0.0.0.0:0', ...capability, wsTokenSha256: DIGEST },
    { listen: 'wss://0.0.0.0:0', tlsClientCa: 'ca.pem' },
    { listen: 'unix:///run/x.sock', ...signed, wsSharedSecretFile: 's' },
  ])('accepts %j', (settings) => {
    expect(() => start(settings)).not.toThrow();
  });

  test('refuses a client CA without TLS as the only authentication', () => {
    expect(() => start({ listen: 'ws://0.0.0.0:0', tlsClientCa: 'ca.pem' })).toThrow('anyone');
  });
});

describe('refuseUnenforceableLimits', () => {
  const noGroups = () => 'no cgroup v2';
  const withGroups = () => null;

  const NEED_GROUPS = CONFIG_OPTIONS.filter(({ description }) =>
    description.includes('Needs control groups'),
  );

  test('the options that need control groups say so in their description', () => {
    expect(NEED_GROUPS).toHaveLength(5);
  });

  test.each(NEED_GROUPS)('refuses $flag where it cannot be enforced', async ({ key, flag }) => {
    const config = { ...DEFAULT_CONFIG, [key]: 1 };
    const refusal = refuseUnenforceableLimits(config, noGroups);
    await expect(refusal).rejects.toThrow(StartError);
    await expect(refusal).rejects.toThrow(new RegExp(`^${flag} .*no cgroup v2.*Delegate=yes`));
    await expect(refuseUnenforceableLimits(config, withGroups)).resolves.toBeUndefined();
    const notNative = refuseUnenforceableLimits({ ...config, nativeSpawn: false }, withGroups);
    await expect(notNative).rejects.toThrow(/nativeSpawn/);
  });

  test('accepts limits that can be enforced without control groups', async () => {
    const config = { ...DEFAULT_CONFIG, maxProcessMemoryBytes: 1, maxProcessWallMs: 1 };
    await expect(refuseUnenforceableLimits(config, noGroups)).resolves.toBeUndefined();
  });

  test('refuses a memory limit without native starts', async () => {
    const config = { ...DEFAULT_CONFIG, maxProcessMemoryBytes: 1, nativeSpawn: false };
    const refusal = refuseUnenforceableLimits(config, withGroups);
    await expect(refusal).rejects.toThrow(StartError);
    await expect(refusal).rejects.toThrow(/^--max-process-memory-bytes .*nativeSpawn/);
  });
});
