import { expect, test } from 'vitest';
import { parseListenUrl } from '../../../../src/listener/listen-url.ts';
import { refuseUnsafeStart } from '../../../../src/server/auth/start-refusal.ts';
import { DEFAULT_CONFIG, type ExecServerConfig } from '../../../../src/server/config/config.ts';

function start(settings: Partial<ExecServerConfig>): void {
  const config = { ...DEFAULT_CONFIG, ...settings };
  refuseUnsafeStart(config, parseListenUrl(config.listen));
}

const DIGEST = 'aB'.repeat(32);
const capability = { wsAuth: 'capability-token' } as const;
const signed = { wsAuth: 'signed-bearer-token' } as const;

test.each<[string, Partial<ExecServerConfig>, string]>([
  [
    'a token without a mode',
    { wsTokenFile: 't' },
    'websocket auth flags require `--ws-auth capability-token` or `--ws-auth signed-bearer-token`',
  ],
  [
    'a clock skew without a mode',
    { wsMaxClockSkewSeconds: 1 },
    'websocket auth flags require `--ws-auth capability-token` or `--ws-auth signed-bearer-token`',
  ],
  [
    'no token',
    capability,
    '`--ws-token-file` or `--ws-token-sha256` is required when `--ws-auth capability-token` is set',
  ],
  [
    'two tokens',
    { ...capability, wsTokenFile: 't', wsTokenSha256: DIGEST },
    '`--ws-token-file` and `--ws-token-sha256` are mutually exclusive',
  ],
  [
    'a short digest',
    { ...capability, wsTokenSha256: DIGEST.slice(1) },
    '--ws-token-sha256 must be a 64-character hex SHA-256 digest',
  ],
  [
    'a secret for a capability token',
    { ...capability, wsTokenSha256: DIGEST, wsIssuer: 'me' },
    '`--ws-shared-secret-file`, `--ws-issuer`, `--ws-audience`, and `--ws-max-clock-skew-seconds` require `--ws-auth signed-bearer-token`',
  ],
  [
    'revoked tokens for one token',
    { ...capability, wsTokenSha256: DIGEST, revokedTokens: 'r' },
    '`--revoked-tokens` requires `--ws-auth signed-bearer-token`: only signed tokens have ids',
  ],
  ['no secret', signed, '`--ws-shared-secret-file` is required when `--ws-auth signed-bearer-token` is set'],
  [
    'a token for signed ones',
    { ...signed, wsSharedSecretFile: 's', wsTokenFile: 't' },
    '`--ws-token-file` and `--ws-token-sha256` require `--ws-auth capability-token`, not `signed-bearer-token`',
  ],
  [
    'tokens on stdio',
    { ...capability, wsTokenSha256: DIGEST, listen: 'stdio' },
    'WebSocket auth requires a WebSocket listener, not stdio',
  ],
])('%s is refused', (_, settings, message) => {
  expect(() => start(settings)).toThrow(message);
});

test.each(['ws://0.0.0.0:0', 'ws://[::]:0', 'ws://192.0.2.1:4000', 'wss://10.0.0.1:1'])(
  '%s without tokens is refused and the cure is named',
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
])('%j may start', (settings) => {
  expect(() => start(settings)).not.toThrow();
});

test('authorities for client certificates are of no use without TLS', () => {
  expect(() => start({ listen: 'ws://0.0.0.0:0', tlsClientCa: 'ca.pem' })).toThrow('anyone');
});
