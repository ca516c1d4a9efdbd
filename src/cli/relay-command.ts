import { randomUUID } from 'node:crypto';
import type { Writable } from 'node:stream';
import { isLoopback, ListenUrlError, parseListenUrl, type SocketAddress } from '../listener/listen-url.ts';
import { createLogger, type LogLevel } from '../observability/log.ts';
import { TOKEN_ROLES, type TokenRole, writeToken } from '../relay/service/access/access-tokens.ts';
import { Seal } from '../relay/service/access/sealed-text.ts';
import { type RelayConfig, type RunningRelay, startRelay } from '../relay/service/relay.ts';
import { readSharedSecret } from '../server/auth/secret-file.ts';
import { quoteValue } from '../server/config/values.ts';
import { EXIT_CODES, LISTEN_FAILURES, RunError, UsageError } from './failures.ts';
import { loadFileLock } from './file-lock.ts';
import { deliver, seconds } from './token-command.ts';
import { parseToolFlags } from './tool-flags.ts';

/** The surroundings of a relay. */
export interface RelayHost {
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly stdout: Pick<Writable, 'write'>;
  readonly stderr: Pick<Writable, 'write'>;
  onSignal(listener: (signal: string) => void): void;
  /** Ends the process at once. */
  exit(code: number): void;
}

/** Does what the arguments behind `relay` ask for: returns a text to print, or serves and returns the exit code. */
export async function relayCommand(argv: readonly string[], host: RelayHost): Promise<string | number> {
  if (argv.includes('--help') || argv.includes('-h')) return RELAY_HELP;
  const [first, ...rest] = argv;
  if (first === 'token') return relayToken(parse(rest, TOKEN_FLAGS));
  return await serveRelay(configOf(parse(argv, SERVE_FLAGS), host), host);
}

export const RELAY_HELP = `\
Usage: exec-server relay --secret-file FILE [options]
       exec-server relay token --secret-file FILE --role ROLE [options]

Serves a registry and a rendezvous: executors behind firewalls connect to it
(exec-server --remote URL) and harnesses meet them there. It forwards encrypted
frames and reads none. Prints its URL on stdout once it is ready.

Options:
  --secret-file FILE   What tokens and URLs are sealed with, at least 32 bytes;
                       any 'exec-server token' will do. The same on all nodes.
  --listen URL         http://IP:PORT or https://IP:PORT.
                       Default: http://127.0.0.1:0
  --tls-cert FILE      PEM file with the certificate of an https:// listener.
  --tls-key FILE       PEM file with its private key.
  --insecure-no-tls    Let other machines connect without TLS, because something
                       in front of the relay has it.
  --public-url URL     Where clients reach the relay, if not at --listen.
  --node-url URL       Where harnesses reach this node of several.
                       Default: the public URL
  --store STORE        What is known of executors: memory; file:///PATH, which
                       survives a restart; or redis://HOST:PORT, which several
                       nodes share. Default: $EXEC_SERVER_RELAY_STORE or memory
  --revoked-file FILE  Ids of tokens that are no longer good, one per line.
  --audit-log FILE     Record calls and sockets; see 'exec-server audit'.
  --metrics            Serve /metrics to tokens of the role metrics.
  --max-connections N  Websockets at once. Default: 16384
  --log-level LEVEL    debug, info, warn or error. Default: info

SIGTERM sends everybody away and ends; SIGHUP reads certificates and revoked
tokens again, closes the sockets of the latter, and reopens the audit log.

Tokens:
  --role ROLE          executor, harness or metrics.
  --environment ID     The environment, for an executor or a harness: up to 64
                       letters, digits, _ and -.
  --expires-in TIME    How long the token is good: 90s, 15m, 8h, 30d.
                       Default: without end
  --id TEXT            The name by which logs know it. Default: random
  --out FILE           Write the token to a new file that only you can read.
`;

type Flags = Readonly<Record<string, string | boolean | undefined>>;

const SERVE_FLAGS = [
  'secret-file',
  'listen',
  'tls-cert',
  'tls-key',
  'insecure-no-tls',
  'public-url',
  'node-url',
  'store',
  'revoked-file',
  'audit-log',
  'metrics',
  'max-connections',
  'log-level',
];
const TOKEN_FLAGS = ['secret-file', 'role', 'environment', 'expires-in', 'id', 'out'];
const SWITCHES = new Set(['insecure-no-tls', 'metrics']);
const LOG_LEVELS: readonly LogLevel[] = ['debug', 'info', 'warn', 'error'];
const ENVIRONMENT_ID = /^[A-Za-z0-9_-]{1,64}$/;
const TOKEN_ID = /^[\w.:@-]{1,64}$/;

function parse(args: readonly string[], names: readonly string[]): Flags {
  const options = Object.fromEntries(
    names.map((name) => [name, { type: SWITCHES.has(name) ? ('boolean' as const) : ('string' as const) }]),
  );
  return parseToolFlags('relay', args, options);
}

function text(flags: Flags, name: string): string | null {
  const value = flags[name];
  if (value === '') throw new UsageError(`--${name} needs a value`);
  return typeof value === 'string' ? value : null;
}

function required(flags: Flags, name: string): string {
  const value = text(flags, name);
  if (value === null) throw new UsageError(`relay needs --${name}; try 'exec-server relay --help'`);
  return value;
}

function configOf(flags: Flags, { env, stderr }: RelayHost): RelayConfig {
  const address = listenAddress(text(flags, 'listen') ?? 'http://127.0.0.1:0');
  const publicUrl = httpUrl(flags, 'public-url');
  const nodeUrl = httpUrl(flags, 'node-url');
  const tls = tlsFiles(flags, address);
  refuseUnsafe(address, flags['insecure-no-tls'] === true);
  if (publicUrl === null && (address.host === '0.0.0.0' || address.host === '::')) {
    throw new UsageError('--listen on every address has no URL of its own: give --public-url');
  }
  const maxConnections = text(flags, 'max-connections');
  const level = logLevel(text(flags, 'log-level') ?? 'info');
  return {
    address,
    tls,
    ...(maxConnections !== null && { maxConnections: positive('max-connections', maxConnections) }),
    secret: readSharedSecret(required(flags, 'secret-file')),
    store: text(flags, 'store') ?? (env.EXEC_SERVER_RELAY_STORE || 'memory'),
    publicUrl,
    nodeUrl,
    revokedFile: text(flags, 'revoked-file'),
    auditLog: text(flags, 'audit-log'),
    metrics: flags.metrics === true,
    log: createLogger(level, (line) => stderr.write(line)),
  };
}

function listenAddress(url: string): SocketAddress {
  const expected = `--listen: ${quoteValue(url)} is not http://IP:PORT or https://IP:PORT`;
  if (!/^https?:\/\//.test(url)) throw new UsageError(expected);
  try {
    return parseListenUrl(url.replace(/^http/, 'ws').replace(/\/$/, '')) as SocketAddress;
  } catch (error) {
    throw error instanceof ListenUrlError ? new UsageError(expected) : error;
  }
}

function tlsFiles(flags: Flags, { secure }: SocketAddress): RelayConfig['tls'] {
  const [cert, key] = [text(flags, 'tls-cert'), text(flags, 'tls-key')];
  if (secure !== (cert !== null) || secure !== (key !== null)) {
    throw new UsageError('--listen https://IP:PORT goes with --tls-cert and --tls-key, and they with it');
  }
  return cert === null || key === null ? null : { cert, key, clientCa: null };
}

/** Tokens and URLs let whoever reads them in. */
function refuseUnsafe({ secure, host }: SocketAddress, isTold: boolean): void {
  if (secure || isTold || isLoopback(host)) return;
  throw new RunError(
    `${host} can be reached from other machines, and tokens could be read on the way: listen on https:// with --tls-cert ` +
      'and --tls-key, or on 127.0.0.1, or say `--insecure-no-tls` if something in front of the relay has TLS',
  );
}

function httpUrl(flags: Flags, name: string): string | null {
  const value = text(flags, name);
  if (value === null) return null;
  const url = URL.canParse(value) ? new URL(value) : null;
  const isPlain = url !== null && url.search === '' && url.hash === '' && url.username === '';
  if (!isPlain || !/^https?:$/.test(url.protocol)) {
    throw new UsageError(`--${name}: ${quoteValue(value)} is not a URL like https://relay.example`);
  }
  return value.replace(/\/+$/, '');
}

function logLevel(value: string): LogLevel {
  const level = LOG_LEVELS.find((name) => name === value);
  if (level !== undefined) return level;
  throw new UsageError(`--log-level: ${quoteValue(value)} is not one of ${LOG_LEVELS.join(', ')}`);
}

function positive(name: string, value: string): number {
  if (/^[1-9]\d{0,6}$/.test(value)) return Number(value);
  throw new UsageError(`--${name}: ${quoteValue(value)} is not a number of 1 or more`);
}

async function serveRelay(config: RelayConfig, host: RelayHost): Promise<number> {
  let relay: RunningRelay;
  try {
    const fileLock = config.store.startsWith('file:') ? await loadFileLock() : null;
    relay = await startRelay({ ...config, fileLock });
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (code === undefined) throw error;
    throw new RunError(`cannot listen on --listen: ${LISTEN_FAILURES[code] ?? (error as Error).message}`);
  }
  const ended = new Promise<void>((resolve, reject) => {
    let isEnding = false;
    host.onSignal((signal) => {
      if (signal === 'SIGHUP') {
        void relay.reload();
      } else if (isEnding) {
        host.exit(EXIT_CODES.failure.code);
      } else {
        isEnding = true;
        relay.close(`the relay is shutting down (${signal})`).then(resolve, reject);
      }
    });
  });
  host.stdout.write(`${relay.url}\n`);
  await ended;
  return EXIT_CODES.success.code;
}

function relayToken(flags: Flags): string {
  const role = TOKEN_ROLES.find((name) => name === required(flags, 'role'));
  if (role === undefined) throw new UsageError(`--role is one of ${TOKEN_ROLES.join(', ')}`);
  const environmentId = environmentOf(flags, role);
  const id = text(flags, 'id') ?? randomUUID();
  if (!TOKEN_ID.test(id)) throw new UsageError('--id has up to 64 letters, digits and . _ - : @');
  const lifetime = text(flags, 'expires-in');
  const expiresAt = lifetime === null ? null : Math.floor(Date.now() / 1_000) + seconds(lifetime);
  const seal = new Seal(readSharedSecret(required(flags, 'secret-file')));
  const token = writeToken(seal, { id, role, environmentId, expiresAt });
  const expires = expiresAt === null ? 'never' : new Date(expiresAt * 1_000).toISOString();
  return `${deliver(token, text(flags, 'out') ?? undefined)}id: ${id}\nexpires: ${expires}\n`;
}

function environmentOf(flags: Flags, role: TokenRole): string | null {
  const environmentId = text(flags, 'environment');
  if (role === 'metrics') {
    if (environmentId === null) return null;
    throw new UsageError('--environment is for executors and harnesses');
  }
  if (environmentId !== null && ENVIRONMENT_ID.test(environmentId)) return environmentId;
  throw new UsageError('--environment ID is needed: up to 64 letters, digits, _ and -');
}
