import { resolve } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import type * as ServeModule from '../server/serve.ts';
import type { RunningServer } from '../server/serve.ts';
import type { Arguments } from './arguments.ts';
import { EXIT_CODES, LISTEN_FAILURES, RunError, UsageError } from './failures.ts';
import type { Settings } from './settings.ts';

/** The surroundings of a served process, so that tests can stand in for them. */
export interface Host {
  readonly server: Pick<typeof ServeModule, 'serve' | 'serveStdio'>;
  readonly env: NodeJS.ProcessEnv;
  readonly stdin: Readable;
  readonly stdout: Writable;
  readonly stderr: Writable;
  onSignal(listener: (signal: string) => void): void;
  /** Runs `cleanup` when the process exits, however it does. */
  onExit(cleanup: () => void): void;
  /** Does what must be done before the first request but can wait until the URL is out. */
  beforeRequests(): void;
  /** Ends the process at once. */
  exit(code: number): void;
}

/** Files that tell other programs about the server. */
export type RuntimeFiles = Pick<Arguments, 'urlFile' | 'pidFile'>;

/** How the server is reached beside its listener, and what ends it beside signals. */
export type RunFlags = RuntimeFiles &
  Pick<Arguments, 'remote' | 'name' | 'executorCredentialStdin' | 'exitOnStdinClose'>;

/**
 * Serves until the transport ends or a signal arrives, and returns the exit code. Prints the URL on stdout and nothing else.
 * A first signal closes the server in good order, a second one ends the process at once; SIGHUP has a server read its files again
 * if it has any that can change.
 */
export async function runServer(settings: Settings, flags: RunFlags, host: Host): Promise<number> {
  refuseUselessFiles(settings, flags);
  const endsWithStdin = takeStdinRule(settings, flags, host);
  // Signal listeners do not keep Node alive; a server that listens nowhere would end at once.
  const keepAlive = setInterval(() => {}, MAX_TIMER_MS);
  try {
    const stop = new Stop(settings, host);
    // On stdio the first request may be there already.
    if (settings.address.kind === 'stdio') host.beforeRequests();
    const started = await start(settings, host);
    let server = started;
    try {
      if (flags.remote !== null) server = await joinRelay(started, settings, flags, flags.remote, host);
      stop.attach(server);
      if (endsWithStdin) await endWithStdin(server, host);
      await publish(server, flags, host);
      if (settings.address.kind !== 'stdio') host.beforeRequests();
      // Logging to a reader that went away is no reason to stop.
      host.stderr.on('error', () => {});
      await Promise.race([server.closed, stop.done]);
    } catch (error) {
      await server.close('failed').catch(() => {});
      throw error;
    }
    return EXIT_CODES.success.code;
  } finally {
    clearInterval(keepAlive);
  }
}

const MAX_TIMER_MS = 2 ** 31 - 1;

/** The one-way road from a signal, or the loss of a stdio client, to a closed server. */
class Stop {
  /** Settles like the `close` it asked for. */
  readonly done: Promise<void>;
  #resolve!: (closed: Promise<void>) => void;
  #requested: string | null = null;
  #signalled = false;
  #server: RunningServer | null = null;

  constructor(settings: Settings, host: Host) {
    this.done = new Promise((resolve) => {
      this.#resolve = resolve;
    });
    host.onSignal((signal) => void this.#onSignal(signal, host));
    if (settings.address.kind === 'stdio') host.stdout.on('error', () => this.#request('stdout is closed'));
  }

  /** A request made before the server has started is carried out now. */
  attach(server: RunningServer): void {
    this.#server = server;
    if (this.#requested !== null) this.#close(this.#requested);
  }

  /** A hang-up ends a server, unless it has something to read again. */
  async #onSignal(signal: string, host: Host): Promise<void> {
    if (signal === 'SIGHUP' && !this.#signalled && (await this.#server?.reload())) return;
    if (!this.#signalled) {
      this.#signalled = true;
      this.#request(`the server is shutting down (${signal})`);
    } else {
      host.stderr.write(`exec-server: stopped at once by a second signal (${signal})\n`);
      host.exit(EXIT_CODES.failure.code);
    }
  }

  #request(reason: string): void {
    if (this.#requested !== null) return;
    this.#requested = reason;
    this.#close(reason);
  }

  #close(reason: string): void {
    if (this.#server !== null) this.#resolve(this.#server.close(reason));
  }
}

async function start({ config, address }: Settings, host: Host): Promise<RunningServer> {
  if (address.kind === 'stdio') return host.server.serveStdio(config, host.stdin, host.stdout);
  try {
    return await host.server.serve(config);
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    if (code === undefined) throw error;
    const failures = address.kind === 'unix' ? UNIX_FAILURES : LISTEN_FAILURES;
    throw new RunError(`cannot listen on ${config.listen}: ${failures[code] ?? (error as Error).message}`);
  }
}

const UNIX_FAILURES: Readonly<Record<string, string>> = {
  // Also what Node says when there is no such directory.
  EACCES: 'its directory does not exist, or is not yours to write to (create it, or choose another path)',
  ENOTDIR: 'part of the path is not a directory (choose another path)',
};

async function joinRelay(
  server: RunningServer,
  { config }: Settings,
  { name, executorCredentialStdin: credentialStdin }: RunFlags,
  remote: string,
  host: Host,
): Promise<RunningServer> {
  const { serveRemotely } = await import('./remote-mode.ts');
  const { environmentId } = config;
  return serveRemotely(server, { remote, name, environmentId, credentialStdin }, config, host);
}

async function endWithStdin(server: RunningServer, host: Host): Promise<void> {
  const remote = await import('./remote-mode.ts');
  remote.endWithStdin(server, host.stdin);
}

/** Whether the server ends with stdin. The variable that says so is not for the programs it starts. */
function takeStdinRule({ address }: Settings, flags: RunFlags, { env }: Host): boolean {
  const wanted = flags.exitOnStdinClose || /^(?:1|true)$/i.test(env[STDIN_VARIABLE] ?? '');
  delete env[STDIN_VARIABLE];
  if (address.kind === 'stdio' && flags.executorCredentialStdin) {
    throw new UsageError('--executor-credential-stdin needs stdin, which the stdio listener has');
  }
  // On stdio it does so anyway, and credentials on stdin are read by somebody else who ends with them.
  return wanted && address.kind !== 'stdio' && !flags.executorCredentialStdin;
}

const STDIN_VARIABLE = 'CODEX_EXEC_SERVER_EXIT_ON_STDIN_CLOSE';

/** The files come first: whoever has read the URL line may rely on them. */
async function publish(
  { url }: RunningServer,
  { urlFile, pidFile }: RuntimeFiles,
  host: Host,
): Promise<void> {
  if (urlFile !== null || pidFile !== null) {
    const { publishFile } = await import('./runtime-files.ts');
    if (pidFile !== null) host.onExit(publishFile('--pid-file', pidFile, `${process.pid}\n`));
    if (urlFile !== null) host.onExit(publishFile('--url-file', urlFile, `${url}\n`));
  }
  if (url !== null) host.stdout.write(`${url}\n`);
}

function refuseUselessFiles({ address, config }: Settings, { urlFile, pidFile }: RuntimeFiles): void {
  if (urlFile === null) return;
  if (address.kind !== 'websocket' && address.kind !== 'unix') {
    throw new UsageError(`--url-file needs a websocket listener; '${config.listen}' has no URL`);
  }
  if (pidFile !== null && resolve(urlFile) === resolve(pidFile)) {
    throw new UsageError('--url-file and --pid-file name the same file; give each its own');
  }
}
