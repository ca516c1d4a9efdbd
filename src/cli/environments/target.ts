import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { suggestionFor } from '../../base/suggestion.ts';
import type { ConnectOptions, ExecServerClient, UrlOptions } from '../../client/client.ts';
import type { TransportSource } from '../../client/connection/session-options.ts';
import { quoteValue } from '../../server/config/values.ts';
import type { TlsOptions } from '../../transport/tls-options.ts';
import type { Transport } from '../../transport/transport.ts';
import { RunError, UsageError } from '../failures.ts';
import { cannotReadFile } from '../file-failures.ts';
import type { CodexEnvironment } from './codex-environments.ts';
import { connectError, type ServerFacts } from './connect-error.ts';
import type { NamedEnvironment } from './environments-file.ts';
import { publicUrl } from './public-address.ts';

/** The name of this machine's private server. */
export const LOCAL = 'local';

/** The kind of RunError for a program that a server does not start, because it drains. */
export const DRAINING = 'draining';

/** Whether a server has refused new work because it drains. */
export function isDrainingError({ message }: Error): boolean {
  return message.includes('the server is draining:');
}

/** What the command line says about the environment. */
interface TargetFlags {
  /** The value of -E: a name or a URL; null without it. */
  readonly environment: string | null;
  /** The value of --token-file. */
  readonly tokenFile: string | null;
  /** What names the environment, for errors, if it is not -E. */
  readonly source?: string;
}

/** Where a command looks for the environment. */
export interface TargetSources {
  readonly env: NodeJS.ProcessEnv;
  readonly directory: string;
}

/** Options of the client that do not depend on the environment. */
export type ClientOptions = Pick<
  UrlOptions,
  | 'clientName'
  | 'signal'
  | 'recoveryWindowMs'
  | 'detachedSessionTtlMs'
  | 'whileDraining'
  | 'pingIntervalMs'
  | 'pongTimeoutMs'
>;

/** The environment of a command. */
export interface Target {
  /** The name, or the URL where there is no name. */
  readonly name: string;
  /** Where the server is, for people. */
  readonly address: string;
  /** The same for other people: without paths, queries and arguments, which can contain secrets. */
  readonly publicAddress: string;
  /** Why this environment: a flag, a variable, a file. */
  readonly source: string;
  /** Connects, and starts the private server if needed. Rejects with RunError that says what to do. */
  connect(options: ClientOptions): Promise<ExecServerClient>;
  /** Connects to a server that runs already. Resolves with null where a program would have to be started for that. */
  connectToRunning(options: ClientOptions): Promise<ExecServerClient | null>;
  /** How to reach the server, with its token and certificates. Opens no connection. */
  transport(): Promise<TransportChoice>;
  /** Opens a connection without a session, and starts the private server if needed. Rejects with RunError that says what to do. */
  open(signal: AbortSignal): Promise<Transport>;
}

/**
 * Finds the environment of a command: -E, else EXEC_SERVER_URL, else what `use` chose for the directory or for all, else the private
 * server of this machine. Opens no connection. Throws UsageError, without the command, for a name or a URL that means nothing.
 */
export async function findTarget(flags: TargetFlags, sources: TargetSources): Promise<Target> {
  const { env } = sources;
  if (flags.environment !== null) return named(flags.environment, flags.source ?? '-E', flags, sources);
  if (env.EXEC_SERVER_URL) return named(env.EXEC_SERVER_URL, 'EXEC_SERVER_URL', flags, sources);
  const { selectionFor } = await import('./selection.ts');
  const selection = selectionFor(sources.directory, env);
  if (selection !== null) {
    return named(selection.environment, `'exec-server use' in ${selection.directory}`, flags, sources);
  }
  const chosen = await globalDefault(env);
  return chosen === null
    ? privateTarget(env, 'nothing else is configured')
    : named(chosen.name, chosen.path, flags, sources);
}

async function named(
  text: string,
  source: string,
  flags: TargetFlags,
  sources: TargetSources,
): Promise<Target> {
  if (text === LOCAL) return privateTarget(sources.env, source);
  if (!text.includes(':')) return namedTarget(text, source, flags, sources);
  const url = { id: text, url: text, tokenFile: null, environmentId: null, tls: NO_TLS };
  checkUrl(text, source);
  return environmentTarget(url, source, flags, sources);
}

async function namedTarget(
  name: string,
  source: string,
  flags: TargetFlags,
  sources: TargetSources,
): Promise<Target> {
  const { readEnvironments } = await import('./environments-file.ts');
  const { environments } = await readEnvironments(sources.env);
  const own = environments.find(({ id }) => id === name);
  if (own !== undefined) return environmentTarget(own, source, flags, sources);
  const { codexEnvironments } = await import('./codex-environments.ts');
  const ofCodex = await codexEnvironments(sources.env);
  const found = ofCodex.find(({ id }) => id === name);
  if (found !== undefined) return codexTarget(found, source);
  const names = [...environments, ...ofCodex].map(({ id }) => id);
  const advice = suggestionFor(name, [...names, LOCAL]) ?? "'exec-server env ls' lists them";
  const unset = source.startsWith("'exec-server use'")
    ? "; 'exec-server use --unset' forgets the choice"
    : '';
  throw new UsageError(`unknown environment ${quoteValue(name)} (${source})${unset}; ${advice}`);
}

function codexTarget({ id, address, publicAddress, transport }: CodexEnvironment, source: string): Target {
  const tokenFrom = 'authToken' in transport ? 'the configuration of codex' : null;
  const credentials = { address, tokenFrom, tokenAdvice: 'set one in the configuration of codex' };
  const connect = (options: ClientOptions) => connectTo(transport, options, credentials);
  return {
    name: id,
    address,
    publicAddress,
    source,
    connect,
    connectToRunning: async (options) => ('url' in transport ? connect(options) : null),
    transport: async () => transport,
    open: (signal) => openTo(transport, signal, credentials),
  };
}

async function openTo(
  transport: TransportChoice,
  signal: AbortSignal,
  server: ServerFacts,
): Promise<Transport> {
  const { openTransport } = await import('./open-transport.ts');
  return openTransport(transport, signal).catch((error: Error) => {
    throw connectError(error, server);
  });
}

async function connectTo(
  transport: TransportChoice,
  options: ClientOptions,
  server: ServerFacts,
): Promise<ExecServerClient> {
  const { ExecServerClient } = await import('../../client/client.ts');
  const { pingIntervalMs, pongTimeoutMs, ...session } = options;
  // Transports other than websockets have no pings.
  const pings = 'open' in transport ? {} : { pingIntervalMs, pongTimeoutMs };
  return ExecServerClient.connect({ ...session, ...pings, ...transport } as ConnectOptions).catch(
    (error: Error) => {
      throw connectError(error, server);
    },
  );
}

async function globalDefault(env: NodeJS.ProcessEnv): Promise<{ name: string; path: string } | null> {
  const { userConfigFile } = await import('../config-file.ts');
  const { existsSync } = await import('node:fs');
  const path = userConfigFile(env, 'environments.toml');
  // The code for TOML is not loaded for those who have no file.
  if (path === null || !existsSync(path)) return null;
  const { readEnvironments } = await import('./environments-file.ts');
  const { default: name } = await readEnvironments(env);
  return name === null ? null : { name, path };
}

/** Throws UsageError, without the command, for a URL that no command can use. */
export function checkUrl(text: string, source: string): void {
  const name = source === 'add' ? '' : ' or a name of an environment';
  const forms = `write ws://HOST:PORT, wss://HOST, unix:///PATH or ssh://HOST${name}`;
  const scheme = /^([a-z]+):\/\//i.exec(text)?.[1]?.toLowerCase();
  if (scheme === 'http' || scheme === 'https') {
    throw new UsageError(
      `${source}: ${quoteValue(text)} is the URL of a web server; write ws:// or wss://, or name a relay with 'exec-server env add NAME ${text} --token-file FILE'`,
    );
  }
  if (!['ws', 'wss', 'unix', 'ssh'].includes(scheme ?? '')) {
    throw new UsageError(`${source}: ${quoteValue(text)} is no environment; ${forms}`);
  }
  if (scheme === 'unix' && !text.startsWith('unix:///')) {
    throw new UsageError(`${source}: ${quoteValue(text)} needs an absolute path; write unix:///PATH`);
  }
  if ((scheme === 'ws' || scheme === 'wss') && !URL.canParse(text)) {
    throw new UsageError(`${source}: ${quoteValue(text)} is not a URL; ${forms}`);
  }
  if ((scheme === 'ws' || scheme === 'wss') && /\/\/[^/]*@/.test(text)) {
    throw new UsageError(
      `${source}: a URL must not contain a password; use --token-file or EXEC_SERVER_TOKEN`,
    );
  }
}

function privateTarget(env: NodeJS.ProcessEnv, source: string): Target {
  const address = "this machine's private server";
  const server = { address, tokenFrom: null, tokenAdvice: URL_TOKEN_ADVICE };
  const transport: TransportSource = {
    resumable: true,
    async open(signal) {
      const [{ reachPrivateServer }, { openTransport }] = await Promise.all([
        import('../private-server/reach-private-server.ts'),
        import('./open-transport.ts'),
      ]);
      return (await reachPrivateServer(env, (url) => openTransport({ url }, signal))).result;
    },
  };
  return {
    name: LOCAL,
    address,
    publicAddress: address,
    source,
    async connect(options) {
      const [{ reachPrivateServer }, { ExecServerClient }] = await Promise.all([
        import('../private-server/reach-private-server.ts'),
        import('../../client/client.ts'),
      ]);
      const { result } = await reachPrivateServer(env, (url) =>
        ExecServerClient.connect({ ...options, url }),
      ).catch(async (error: Error) => {
        throw connectError(error, { ...server, silentAdvice: await silentAdviceFor(env) });
      });
      return result;
    },
    async connectToRunning(options) {
      const [{ privateFolder }, { ExecServerClient }] = await Promise.all([
        import('../private-server/private-folder.ts'),
        import('../../client/client.ts'),
      ]);
      return ExecServerClient.connect({ ...options, url: privateFolder(env).url }).catch(() => null);
    },
    transport: async () => transport,
    open: (signal) => openTo(transport, signal, server),
  };
}

/** What to do about a private server that does not answer. Null when its pid is not known. */
async function silentAdviceFor(env: NodeJS.ProcessEnv): Promise<string | null> {
  const { runningPrivateServer } = await import('../private-server/running-private-server.ts');
  const pid = runningPrivateServer(env)?.pid;
  if (pid === undefined) return null;
  return `it is busy or stopped; 'kill -9 ${pid}' ends it and its programs, and the next command starts another one`;
}

function environmentTarget(
  environment: NamedEnvironment,
  source: string,
  flags: TargetFlags,
  sources: TargetSources,
): Target {
  const { id, url, environmentId } = environment;
  const addressAt = (at: string) => (environmentId === null ? at : `${environmentId} at ${at}`);
  const address = addressAt(url);
  const isRelay = environmentId !== null;
  const connect = async (options: ClientOptions) => {
    const { token, ...facts } = tokenOf(environment, flags, sources);
    const transport = await transportOf(environment, token, sources.env);
    return connectTo(transport, options, { address, isRelay, ...facts });
  };
  return {
    name: id,
    address,
    publicAddress: addressAt(publicUrl(url)),
    source,
    connect,
    connectToRunning: async (options) => (url.startsWith('ssh:') ? null : connect(options)),
    transport: () => transportOf(environment, tokenOf(environment, flags, sources).token, sources.env),
    async open(signal) {
      const { token, ...facts } = tokenOf(environment, flags, sources);
      const transport = await transportOf(environment, token, sources.env);
      return openTo(transport, signal, { address, isRelay, ...facts });
    },
  };
}

/** A URL has no files of its own. */
const NO_TLS = { ca: null, cert: null, key: null };

/** How to reach a server. */
export type TransportChoice = Pick<UrlOptions, 'url' | 'authToken' | 'tls'> | TransportSource;

async function transportOf(
  { id, url, environmentId, tls: files }: NamedEnvironment,
  token: string | null,
  env: NodeJS.ProcessEnv,
): Promise<TransportChoice> {
  if (environmentId !== null) {
    if (token === null) {
      throw new RunError(
        `the environment ${quoteValue(id)} is behind a relay and needs a token; add it with --token-file`,
      );
    }
    const { relayTransport } = await import('../../environment/config/relay-transport.ts');
    const relay = relayTransport({
      ...{ registryUrl: url, environmentId, authToken: token, accountId: null },
      ...(url.startsWith('https:') && { tls: await tlsOf(files, env) }),
    });
    return { open: (signal) => relay.open(signal), resumable: relay.resumable };
  }
  if (url.startsWith('ssh:')) {
    const { parseSshUrl, sshSource } = await import('./ssh-source.ts');
    return sshSource(parseSshUrl(url));
  }
  const tls = url.startsWith('wss:') && { tls: await tlsOf(files, env) };
  return { url, ...tls, ...(token !== null && { authToken: token }) };
}

/** The certificates of an environment's own files, else those that the variables and the system trust. */
async function tlsOf(files: NamedEnvironment['tls'], env: NodeJS.ProcessEnv): Promise<TlsOptions> {
  const own = Object.values(files).some((file) => file !== null)
    ? (await import('./tls-files.ts')).readTlsFiles(files)
    : {};
  const trusted = await (await import('../registry-auth.ts')).trustedTls(env);
  return { ...trusted, ...own };
}

/**
 * The token for an environment: of --token-file, else of its own file. EXEC_SERVER_TOKEN is for URLs only: a named environment must not
 * get the token of another server.
 */
function tokenOf(
  { id, tokenFile }: NamedEnvironment,
  flags: TargetFlags,
  sources: TargetSources,
): GivenToken {
  const isUrl = id.includes(':');
  const tokenAdvice = isUrl ? URL_TOKEN_ADVICE : NAME_TOKEN_ADVICE;
  const file = flags.tokenFile ?? tokenFile;
  if (file !== null) {
    const path = resolve(sources.directory, file);
    return { token: readToken(path), tokenFrom: path, tokenAdvice };
  }
  const token = (isUrl && sources.env.EXEC_SERVER_TOKEN?.trim()) || null;
  return { token, tokenFrom: token === null ? null : 'EXEC_SERVER_TOKEN', tokenAdvice };
}

const URL_TOKEN_ADVICE = 'use --token-file or EXEC_SERVER_TOKEN';
const NAME_TOKEN_ADVICE =
  "use --token-file, here or with 'exec-server env add'; EXEC_SERVER_TOKEN is for URLs only";

/** Reads a token from a file. Throws RunError. */
export function readToken(file: string): string {
  let token: string;
  try {
    token = readFileSync(file, 'utf8').trim();
  } catch (error) {
    throw cannotReadFile(`the token file ${file}`, error);
  }
  if (/^[\x21-\x7e]{1,16384}$/.test(token)) return token;
  throw new RunError(
    `the token file ${file} does not contain a token; 'exec-server token --out FILE' creates one`,
    { kind: 'storage' },
  );
}

interface GivenToken extends Omit<ServerFacts, 'address' | 'isRelay'> {
  readonly token: string | null;
}
