import { randomUUID } from 'node:crypto';
import { isLoopback, ListenUrlError, parseListenUrl, type SocketAddress } from '../listener/listen-url.ts';
import { parseMetricsAddress } from '../listener/metrics-listener.ts';
import { MetricsToken } from '../listener/metrics-token.ts';
import { createLogger, type LogLevel } from '../observability/log.ts';
import { logStream } from '../observability/log-stream.ts';
import { TOKEN_ROLES, type TokenRole, writeToken } from '../relay/service/access/access-tokens.ts';
import { Seal } from '../relay/service/access/sealed-text.ts';
import { type RelayConfig, startRelay } from '../relay/service/relay.ts';
import { readSecretFile, readSharedSecret } from '../server/auth/secret-file.ts';
import { quoteValue } from '../server/config/values.ts';
import type { CommandResult, Host } from './commands.ts';
import { EXIT_CODES, RunError, UsageError } from './failures.ts';
import { loadFileLock } from './file-lock.ts';
import { type GivenFlags, parseOnlyFlags } from './flags.ts';
import { takePassedSocket } from './passed-socket.ts';
import { hideOwnEnvironment } from './process-setup.ts';
import { RELAY_SERVE_FLAGS, RELAY_TOKEN_FLAGS } from './specs/relay-spec.ts';
import { deliver, seconds } from './token-command.ts';

/** Serves a relay until a signal arrives, or creates a token for one. */
export async function relayCommand(argv: readonly string[], host: Host): Promise<CommandResult> {
  const [first, ...rest] = argv;
  if (first === 'token') {
    return relayToken(parseOnlyFlags('relay', rest, RELAY_TOKEN_FLAGS));
  }
  const flags = parseOnlyFlags('relay', argv, RELAY_SERVE_FLAGS);
  host.surviveHangup();
  const descriptor = takePassedSocket(host.env);
  hideOwnEnvironment();
  // The relay keeps running when its log reader goes away.
  host.stderr.on('error', () => {});
  return { text: '', exitCode: await serveRelay({ ...configOf(flags, host), descriptor }, host) };
}

type ServeFlags = GivenFlags<typeof RELAY_SERVE_FLAGS>;
type TokenFlags = GivenFlags<typeof RELAY_TOKEN_FLAGS>;

const LOG_LEVELS: readonly LogLevel[] = ['debug', 'info', 'warn', 'error'];
const ENVIRONMENT_ID = /^[A-Za-z0-9_-]{1,64}$/;
const TOKEN_ID = /^[\w.:@-]{1,64}$/;

/** The value of a text flag, or null. Throws UsageError for an empty one. */
function text<Name extends string>(flags: { readonly [name in Name]?: string }, name: Name): string | null {
  const value = flags[name];
  if (value === '') throw new UsageError(`--${name} needs a value`, 'relay');
  return value ?? null;
}

function required<Name extends string>(flags: { readonly [name in Name]?: string }, name: Name): string {
  const value = text(flags, name);
  if (value === null) throw new UsageError(`--${name} is required`, 'relay');
  return value;
}

function configOf(flags: ServeFlags, { env, stderr }: Host): RelayConfig {
  const address = listenAddress(text(flags, 'listen') ?? `http${flags['tls-cert'] ? 's' : ''}://127.0.0.1:0`);
  const publicUrl = httpUrl(flags, 'public-url');
  const nodeUrl = httpUrl(flags, 'node-url');
  const tls = tlsFiles(flags, address);
  rejectPlainHttp(address, flags['insecure-no-tls'] === true);
  if (publicUrl === null && (address.host === '0.0.0.0' || address.host === '::')) {
    throw new UsageError('a relay that listens on every address needs --public-url', 'relay');
  }
  const maxConnections = text(flags, 'max-connections');
  const level = logLevel(text(flags, 'log-level') ?? 'info');
  return {
    address,
    tls,
    ...(maxConnections !== null && { maxConnections: positive('max-connections', maxConnections) }),
    secret: readSharedSecret(required(flags, 'secret-file'), '--secret-file'),
    store: text(flags, 'store') ?? (env.EXEC_SERVER_RELAY_STORE || 'memory'),
    publicUrl,
    nodeUrl,
    revokedFile: text(flags, 'revoked-file'),
    auditLog: text(flags, 'audit-log'),
    metrics: flags.metrics === true,
    ...metricsListener(flags),
    log: createLogger(level, logStream(stderr)),
  };
}

function listenAddress(url: string): SocketAddress {
  const expected = `--listen: ${quoteValue(url)} is not http://IP:PORT or https://IP:PORT`;
  if (!/^https?:\/\//.test(url)) throw new UsageError(expected, 'relay');
  try {
    return parseListenUrl(url.replace(/^http/, 'ws').replace(/\/$/, '')) as SocketAddress;
  } catch (error) {
    throw error instanceof ListenUrlError ? new UsageError(expected, 'relay') : error;
  }
}

function metricsListener(flags: ServeFlags): Pick<RelayConfig, 'metricsAddress' | 'metricsToken'> {
  const address = text(flags, 'metrics-listen');
  const tokenFile = text(flags, 'metrics-token-file');
  if (tokenFile !== null && address === null) {
    throw new UsageError('--metrics-token-file needs --metrics-listen', 'relay');
  }
  return {
    metricsAddress: address === null ? null : parseMetricsAddress(address),
    metricsToken:
      tokenFile === null ? null : new MetricsToken(readSecretFile(tokenFile, 'token of /metrics')),
  };
}

function tlsFiles(flags: ServeFlags, { secure }: SocketAddress): RelayConfig['tls'] {
  const [cert, key] = [text(flags, 'tls-cert'), text(flags, 'tls-key')];
  if (secure !== (cert !== null) || secure !== (key !== null)) {
    throw new UsageError(
      'an https:// listener needs --tls-cert and --tls-key, and an http:// listener takes neither',
      'relay',
    );
  }
  return cert === null || key === null ? null : { cert, key, clientCa: null };
}

/** Anyone who reads a token or a URL on the network could use it. */
function rejectPlainHttp({ secure, host }: SocketAddress, isAllowed: boolean): void {
  if (secure || isAllowed || isLoopback(host)) return;
  throw new RunError(
    `other machines can reach ${host}, and tokens could be read on the network: listen on https:// with --tls-cert ` +
      'and --tls-key, or on 127.0.0.1, or use --insecure-no-tls if a proxy in front of the relay provides TLS',
  );
}

function httpUrl(flags: ServeFlags, name: 'public-url' | 'node-url'): string | null {
  const value = text(flags, name);
  if (value === null) return null;
  const url = URL.canParse(value) ? new URL(value) : null;
  const isPlain = url !== null && url.search === '' && url.hash === '' && url.username === '';
  if (!isPlain || !/^https?:$/.test(url.protocol)) {
    throw new UsageError(`--${name}: ${quoteValue(value)} is not a URL like https://relay.example`, 'relay');
  }
  return value.replace(/\/+$/, '');
}

function logLevel(value: string): LogLevel {
  const level = LOG_LEVELS.find((name) => name === value);
  if (level !== undefined) return level;
  throw new UsageError(`--log-level: ${quoteValue(value)} is not one of ${LOG_LEVELS.join(', ')}`, 'relay');
}

function positive(name: string, value: string): number {
  if (/^[1-9]\d{0,6}$/.test(value)) return Number(value);
  throw new UsageError(`--${name}: ${quoteValue(value)} is not a number of 1 or more`, 'relay');
}

async function serveRelay(config: RelayConfig, host: Host): Promise<number> {
  const fileLock = config.store.startsWith('file:') ? await loadFileLock() : null;
  const relay = await startRelay({ ...config, fileLock });
  const ended = new Promise<void>((resolve, reject) => {
    let isEnding = false;
    const end = (signal: string) => {
      isEnding = true;
      relay.close(`the relay is shutting down (${signal})`).then(resolve, reject);
    };
    // A relay has nothing to wait for: its clients connect again, to another node if there is one.
    host.onDrainSignal(() => {
      if (!isEnding) end('SIGUSR2');
    });
    host.onSignal((signal) => {
      if (signal === 'SIGHUP') {
        void relay.reload();
      } else if (isEnding) {
        host.exit(EXIT_CODES.failure.code);
      } else {
        end(signal);
      }
    });
  });
  host.stdout.write(`${relay.url}\n`);
  await ended;
  return EXIT_CODES.success.code;
}

function relayToken(flags: TokenFlags): CommandResult {
  const role = TOKEN_ROLES.find((name) => name === required(flags, 'role'));
  if (role === undefined) throw new UsageError(`--role must be one of ${TOKEN_ROLES.join(', ')}`, 'relay');
  const environmentId = environmentOf(flags, role);
  const id = text(flags, 'id') ?? randomUUID();
  if (!TOKEN_ID.test(id))
    throw new UsageError('--id may have up to 64 letters, digits and . _ - : @', 'relay');
  const lifetime = text(flags, 'expires-in');
  const expiresAt = lifetime === null ? null : Math.floor(Date.now() / 1_000) + seconds(lifetime, 'relay');
  const seal = new Seal(readSharedSecret(required(flags, 'secret-file'), '--secret-file'));
  const token = writeToken(seal, { id, role, environmentId, expiresAt });
  const expires = expiresAt === null ? null : new Date(expiresAt * 1_000).toISOString();
  return deliver(token, { id, expires }, flags, 'relay');
}

function environmentOf(flags: TokenFlags, role: TokenRole): string | null {
  if (role === 'metrics') {
    if (text(flags, 'environment') === null) return null;
    throw new UsageError('--environment is only for the roles executor and harness', 'relay');
  }
  const environmentId = required(flags, 'environment');
  if (ENVIRONMENT_ID.test(environmentId)) return environmentId;
  throw new UsageError(
    `--environment: ${quoteValue(environmentId)} is not an id; an id has 1 to 64 letters, digits, _ and -`,
    'relay',
  );
}
