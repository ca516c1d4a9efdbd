import { isLoopback, type ListenAddress } from '../../listener/listen-url.ts';
import { StartError } from '../../listener/start-error.ts';
import { DEFAULT_CONFIG, type ExecServerConfig } from '../config/config.ts';

/** Throws StartError for settings of access that contradict each other, or that would let everybody in. */
export function refuseUnsafeStart(config: ExecServerConfig, address: ListenAddress): void {
  const problem = authProblem(config) ?? revocationProblem(config) ?? listenerProblem(config, address);
  if (problem !== null) throw new StartError(problem);
}

const TOKEN_SETTINGS = ['wsTokenFile', 'wsTokenSha256'] as const;
const SIGNED_SETTINGS = ['wsSharedSecretFile', 'wsIssuer', 'wsAudience', 'wsMaxClockSkewSeconds'] as const;

function authProblem(config: ExecServerConfig): string | null {
  const given = (key: keyof ExecServerConfig) => config[key] !== DEFAULT_CONFIG[key];
  switch (config.wsAuth) {
    case 'none':
      return [...TOKEN_SETTINGS, ...SIGNED_SETTINGS].some(given)
        ? 'websocket auth flags require `--ws-auth capability-token` or `--ws-auth signed-bearer-token`'
        : null;
    case 'capability-token':
      if (SIGNED_SETTINGS.some(given)) {
        return '`--ws-shared-secret-file`, `--ws-issuer`, `--ws-audience`, and `--ws-max-clock-skew-seconds` require `--ws-auth signed-bearer-token`';
      }
      if (TOKEN_SETTINGS.every(given)) {
        return '`--ws-token-file` and `--ws-token-sha256` are mutually exclusive';
      }
      if (!TOKEN_SETTINGS.some(given)) {
        return '`--ws-token-file` or `--ws-token-sha256` is required when `--ws-auth capability-token` is set';
      }
      return given('wsTokenSha256') && !/^[0-9a-f]{64}$/i.test(config.wsTokenSha256.trim())
        ? '--ws-token-sha256 must be a 64-character hex SHA-256 digest'
        : null;
    case 'signed-bearer-token':
      if (TOKEN_SETTINGS.some(given)) {
        return '`--ws-token-file` and `--ws-token-sha256` require `--ws-auth capability-token`, not `signed-bearer-token`';
      }
      return given('wsSharedSecretFile')
        ? null
        : '`--ws-shared-secret-file` is required when `--ws-auth signed-bearer-token` is set';
  }
}

function revocationProblem({ wsAuth, revokedTokens }: ExecServerConfig): string | null {
  return revokedTokens === '' || wsAuth === 'signed-bearer-token'
    ? null
    : '`--revoked-tokens` requires `--ws-auth signed-bearer-token`: only signed tokens have ids';
}

function listenerProblem(config: ExecServerConfig, address: ListenAddress): string | null {
  if (address.kind === 'stdio' || address.kind === 'off') {
    return config.wsAuth === 'none'
      ? null
      : `WebSocket auth requires a WebSocket listener, not ${address.kind}`;
  }
  if (address.kind === 'unix' || isLoopback(address.host)) return null;
  if (config.wsAuth !== 'none' || config.insecureNoAuth) return null;
  // A client that must show a certificate is known as well as one with a token.
  if (address.secure && config.tlsClientCa !== '') return null;
  return (
    `${config.listen} can be reached from other machines and would run programs for anyone: ` +
    'add `--ws-auth capability-token --ws-token-file FILE` (`exec-server token --out FILE` makes one), ' +
    'or listen on 127.0.0.1, or say `--insecure-no-auth` if something else keeps strangers out'
  );
}
