import { resolve } from 'node:path';
import type { DrainStatus } from '../server/draining.ts';
import type * as ServeModule from '../server/serve.ts';
import type { RunningServer } from '../server/serve.ts';
import type { Host } from './commands.ts';
import { EXIT_CODES, UsageError } from './failures.ts';
import type { ServerArguments } from './server-arguments.ts';
import type { Settings } from './settings.ts';

/** How the server is started. Tests pass their own. */
interface ServerStarter extends Pick<typeof ServeModule, 'serve' | 'serveStdio'> {
  /** Does what must happen before the first request but can wait until the URL is printed. */
  beforeRequests(): void;
}

/** Files that publish the server's URL and process id. */
type RuntimeFiles = Pick<ServerArguments, 'urlFile' | 'pidFile'>;

/** How the server is reached besides its listener, and what ends it besides signals. */
type RunFlags = RuntimeFiles &
  Pick<
    ServerArguments,
    | 'remote'
    | 'name'
    | 'signing'
    | 'executorCredentialStdin'
    | 'useAgentIdentityAuth'
    | 'codexConfig'
    | 'exitOnStdinClose'
  >;

/**
 * Serves until the transport ends or a signal arrives, and returns the exit code. Prints the URL on stdout and nothing else.
 * The first signal closes the server gracefully, a second one ends the process immediately. SIGHUP only reloads the server's files, and
 * SIGUSR2 drains the server.
 */
export async function runServer(
  settings: Settings,
  flags: RunFlags,
  host: Host,
  starter: ServerStarter,
): Promise<number> {
  rejectUselessFiles(settings, flags);
  const endsWithStdin = takeStdinRule(settings, flags, host);
  // Signal listeners do not keep Node alive; a server without a listener would end immediately.
  const keepAlive = setInterval(() => {}, MAX_TIMER_MS);
  try {
    const stop = new Stop(settings, host);
    // On stdio the first request may already be waiting.
    if (settings.address.kind === 'stdio') starter.beforeRequests();
    const { config, address } = settings;
    const started = await (address.kind === 'stdio'
      ? starter.serveStdio(config, host.stdin, host.stdout)
      : starter.serve(config));
    let server = started;
    try {
      if (flags.remote !== null) server = await joinRelay(started, settings, flags, flags.remote, host);
      if (flags.pidFile !== null) stop.takeDrainOrders(await drainOrders(flags.pidFile, host));
      stop.attach(server);
      if (endsWithStdin) await endWithStdin(server, host);
      await publish(server, flags, host);
      if (host.isTerminal && server.url !== null) await explain(server.url, settings, host);
      if (config.console) await showConsole(server, host);
      if (settings.address.kind !== 'stdio') starter.beforeRequests();
      // The server keeps running when its log reader goes away.
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

/** Turns a signal, or the loss of a stdio client, into the closing of the server. */
class Stop {
  /** Settles with the `close` call that was requested. */
  readonly done: Promise<void>;
  #resolve!: (closed: Promise<void>) => void;
  #requested: string | null = null;
  #signalled = false;
  #drains = false;
  #server: RunningServer | null = null;
  #drainOrders: DrainOrders | null = null;

  constructor(settings: Settings, host: Host) {
    this.done = new Promise((resolve) => {
      this.#resolve = resolve;
    });
    host.onSignal((signal) => this.#onSignal(signal, host));
    host.onDrainSignal(() => this.#drain());
    if (settings.address.kind === 'stdio') host.stdout.on('error', () => this.#request('stdout is closed'));
  }

  /** Uses what the command `drain` writes beside the pid file. */
  takeDrainOrders(orders: DrainOrders): void {
    this.#drainOrders = orders;
  }

  /** Carries out a stop that was requested before the server started. */
  attach(server: RunningServer): void {
    this.#server = server;
    if (this.#requested !== null) this.#close(this.#requested);
    else if (this.#drains) this.#drain();
  }

  /** The server closes when it has drained. A signal that ends it works meanwhile. */
  #drain(): void {
    this.#drains = true;
    const server = this.#server;
    if (server === null) return;
    const request = this.#drainOrders?.request() ?? null;
    void server.drain(request?.timeoutMs ?? undefined);
    const status = server.drainStatus();
    if (request !== null && status !== null) this.#drainOrders?.answer(status);
  }

  #onSignal(signal: string, host: Host): void {
    if (signal === 'SIGHUP') {
      if (!this.#signalled) void this.#server?.reload();
    } else if (!this.#signalled) {
      this.#signalled = true;
      this.#request(`the server is shutting down (${signal})`);
    } else {
      host.stderr.write(`exec-server: stopped immediately by a second signal (${signal})\n`);
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

/** What the command `drain` asks for, and the answer to it. */
interface DrainOrders {
  request(): { readonly timeoutMs: number | null } | null;
  answer(status: DrainStatus): void;
}

/** Loads the code now: after an upgrade, the file on disk is that of another version. */
async function drainOrders(pidFile: string, host: Host): Promise<DrainOrders> {
  const { readDrainRequest, writeDrainAnswer } = await import('./service/drain-file.ts');
  // The working directory may be another one when the server drains.
  const path = resolve(pidFile);
  return {
    request: () => readDrainRequest(path),
    answer(status) {
      try {
        host.onExit(writeDrainAnswer(path, status));
      } catch {
        // The command that waits prints no list.
      }
    },
  };
}

async function joinRelay(
  server: RunningServer,
  { config }: Settings,
  given: RunFlags,
  remote: string,
  host: Host,
): Promise<RunningServer> {
  const { serveRemotely } = await import('./remote-mode.ts');
  const { environmentId } = config;
  const { name, signing, executorCredentialStdin: credentialStdin } = given;
  const { useAgentIdentityAuth: agentIdentity, codexConfig: configOverrides } = given;
  const target = { command: null, remote, environmentId };
  const flags = { ...target, name, credentialStdin, agentIdentity, configOverrides, signing };
  return serveRemotely(server, flags, config, host);
}

async function endWithStdin(server: RunningServer, host: Host): Promise<void> {
  const remote = await import('./remote-mode.ts');
  remote.endWithStdin(server, host.stdin);
}

/** Returns whether the server ends with stdin. Removes the variable that says so, so that started programs do not inherit it. */
function takeStdinRule({ address }: Settings, flags: RunFlags, { env }: Host): boolean {
  const wanted = flags.exitOnStdinClose || /^(?:1|true)$/i.test(env[STDIN_VARIABLE] ?? '');
  delete env[STDIN_VARIABLE];
  if (address.kind === 'stdio' && flags.executorCredentialStdin) {
    throw new UsageError('--executor-credential-stdin needs stdin, which the stdio listener uses');
  }
  // A stdio server ends with stdin anyway, and the reader of credentials ends the server when stdin ends.
  return wanted && address.kind !== 'stdio' && !flags.executorCredentialStdin;
}

const STDIN_VARIABLE = 'CODEX_EXEC_SERVER_EXIT_ON_STDIN_CLOSE';

/** Writes the files before it prints the URL, so that a program that has read the URL can rely on them. */
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

/** Tells a person at a terminal what to do with the URL. A program reads stdout only. */
async function explain(url: string, { config }: Settings, host: Host): Promise<void> {
  const { nextSteps } = await import('./next-steps.ts');
  host.stderr.write(nextSteps(url, config));
}

/** Prints a link to the console on stderr: stdout has only the URL of the server. */
async function showConsole(server: RunningServer, host: Host): Promise<void> {
  const { consoleNote } = await import('./console/console-note.ts');
  host.stderr.write(consoleNote(server.url ?? '', server.consoleLink()));
}

/** Throws UsageError for a file that would not be written, or replaced by the other one. */
export function rejectUselessFiles(
  { address, config }: Pick<Settings, 'address' | 'config'>,
  { urlFile, pidFile }: RuntimeFiles,
): void {
  if (urlFile === null) return;
  if (address.kind !== 'websocket' && address.kind !== 'unix') {
    throw new UsageError(`--url-file needs a websocket listener; '${config.listen}' has no URL`);
  }
  if (pidFile !== null && resolve(urlFile) === resolve(pidFile)) {
    throw new UsageError('--url-file and --pid-file name the same file; give each its own');
  }
}
