import { TimeLimit } from '../../base/time-limit.ts';
import { systemReason } from '../../client/system-error.ts';
import { Console, type ConsoleLink } from '../../console/console.ts';
import { ConsoleServer } from '../../console/console-server.ts';
import { packagePageFolder } from '../../console/page-files.ts';
import { signInUrl } from '../../console/paths.ts';
import { createLogger } from '../../observability/log.ts';
import { logStream } from '../../observability/log-stream.ts';
import { VERSION } from '../../observability/version.ts';
import { FULL_ACCESS, readOnlyAccess } from '../../server/auth/access.ts';
import { quoteValue } from '../../server/config/values.ts';
import { type CommandResult, type Host, printed } from '../commands.ts';
import { currentDirectory } from '../environments/current-directory.ts';
import { LOCAL, type Target } from '../environments/target.ts';
import { RunError, UsageError } from '../failures.ts';
import { type GivenFlags, parseOnlyFlags } from '../flags.ts';
import { isForeground } from '../foreground.ts';
import { carriesBytes, joinTransports } from '../join-transports.ts';
import { isPort } from '../ports/forward-spec.ts';
import { CONSOLE_FLAGS } from '../specs/console-spec.ts';
import { limitingRewrite, requireReadOnly } from './connection-limits.ts';
import { CONNECT_TIMEOUT_MS } from './limits.ts';
import { hasDisplay, openBrowser } from './open-browser.ts';
import { shownEnvironments } from './shown-environments.ts';

type Flags = GivenFlags<typeof CONSOLE_FLAGS>;

/** What a link of this command allows. */
interface Grant {
  readonly readOnly: boolean;
}

/** Serves the console until a signal arrives. With --link prints a link to the console of a server. */
export async function consoleCommand(argv: readonly string[], host: Host): Promise<CommandResult> {
  const flags = parseOnlyFlags('console', argv, CONSOLE_FLAGS);
  const port = portOf(flags);
  const sources = { env: host.env, directory: currentDirectory() };
  const shown = { environments: flags.environment ?? [], tokenFile: flags['token-file'] ?? null };
  const targets = await shownEnvironments(shown, sources);
  const grant = { readOnly: flags['read-only'] === true };
  if (flags.link) {
    if (shown.environments.length > 1) throw new UsageError('--link is for one environment', 'console');
    const { requestLink } = await import('./request-link.ts');
    return printed(`${await requestLink(targets[0]!, grant.readOnly)}\n`);
  }
  await serveConsole({ targets, grant, port, flags }, host);
  return printed('');
}

interface Serving {
  readonly targets: readonly Target[];
  readonly grant: Grant;
  readonly port: number;
  readonly flags: Flags;
}

async function serveConsole({ targets, grant, port, flags }: Serving, host: Host): Promise<void> {
  // The console goes on when the reader of the messages is gone.
  host.stderr.on('error', () => {});
  const log = createLogger('warn', logStream(host.stderr));
  const stop = new AbortController();
  const console = createConsole(targets, log, stop.signal, host.env);
  const server = new ConsoleServer(console, port, log);
  const stopped = new Promise<void>((resolve) => {
    host.onSignal((signal) => {
      if (signal !== 'SIGHUP') resolve();
    });
  });
  const origin = await server.listen().catch((error: NodeJS.ErrnoException) => {
    throw new RunError(
      error.code === 'EADDRINUSE'
        ? `port ${port} is in use; choose another one with --port, or leave it out`
        : `cannot listen on port ${port}: ${systemReason(error)}`,
    );
  });
  try {
    const link = () => signInUrl(origin, console.issueCode(grant));
    const first = link();
    host.stdout.write(`${first}\n`);
    if (host.isTerminal) host.stderr.write(EXPLANATION);
    if (opensBrowser(flags, host)) openBrowser(first, host);
    const readsLines = host.isTerminal && isForeground();
    const stopReading = readsLines ? onEnter(host, () => host.stdout.write(`${link()}\n`)) : () => {};
    await stopped.finally(stopReading);
  } finally {
    stop.abort();
    await server.close();
  }
}

const EXPLANATION = `\
The link signs one browser in, once, within a minute. Enter prints another one, Ctrl-C ends the console.
`;

function opensBrowser(flags: Flags, host: Host): boolean {
  if (flags['no-open']) return false;
  return flags.open === true || hasDisplay(host);
}

/** Calls `listener` for each line that is typed. Returns the function that stops it. */
function onEnter({ stdin }: Host, listener: () => void): () => void {
  const read = (chunk: Buffer | string) => {
    if (chunk.includes('\n')) listener();
  };
  stdin.on('data', read);
  return () => {
    stdin.off('data', read);
    stdin.pause();
  };
}

function createConsole(
  targets: readonly Target[],
  log: ReturnType<typeof createLogger>,
  stop: AbortSignal,
  env: NodeJS.ProcessEnv,
): Console<Grant> {
  const shown = namesFor(targets);
  const accessOf = ({ readOnly }: Grant) => (readOnly ? readOnlyAccess(FULL_ACCESS) : FULL_ACCESS);
  return new Console<Grant>({
    version: VERSION,
    tls: false,
    log,
    pageFolder: packagePageFolder(),
    environments: [...shown].map(([name, target], index) => ({
      name,
      label: name,
      address: target.publicAddress,
      directory: startDirectory(name, target),
      default: index === 0,
    })),
    // The command does not know the rights of a token. The server refuses what the token does not allow.
    scopesOf: (grant) => {
      const { exec, observe, files, net, metrics } = accessOf(grant);
      return { exec, observe, processes: true, files, net, metrics, below: null };
    },
    isReadOnly: ({ readOnly }) => readOnly,
    ownerOf: () => LOCAL,
    expiryOf: () => null,
    isGranted: () => true,
    connect: async ({ readOnly }, name) => {
      const target = shown.get(name)!;
      try {
        return await connect(target, readOnly, stop);
      } catch (error) {
        const { message } = error as Error;
        // The browser may be another person's. Secret parts of addresses and the paths of this machine are not for it.
        if (!(error instanceof RunError) || error.kind !== 'storage') {
          throw new RunError(message.replaceAll(target.address, target.publicAddress));
        }
        log.error('cannot connect', { environment: name, reason: message });
        throw new RunError(`cannot connect to ${name}; the command that opened this console says why`);
      }
    },
    machine: async (grant, name) => {
      if (name !== LOCAL) return null;
      const [{ machineFacts }, { privateServerConfig }] = await Promise.all([
        import('../../server/machine/machine-facts.ts'),
        import('../private-server/serve-privately.ts'),
      ]);
      return machineFacts(await privateServerConfig(env), accessOf(grant), null, env);
    },
    authorize: null,
  });
}

/** Where commands of an environment begin. Private servers, also those behind ssh, run in the root directory. */
function startDirectory(name: string, { address }: Target): string | null {
  if (name === LOCAL) return process.cwd();
  return address.startsWith('ssh:') ? '~' : null;
}

/** The environments by the names that the page uses. A URL without a name of its own has its public part as name. */
function namesFor(targets: readonly Target[]): ReadonlyMap<string, Target> {
  const shown = new Map<string, Target>();
  for (const target of targets) {
    const name = target.name.includes(':') ? target.publicAddress : target.name;
    let unique = name;
    for (let number = 2; shown.has(unique); number++) unique = `${name} (${number})`;
    shown.set(unique, target);
  }
  return shown;
}

/** Connects to an environment before the page opens its websocket, so that a failure can be shown. */
async function connect(target: Target, readOnly: boolean, stop: AbortSignal): Promise<ConsoleLink> {
  const limit = new TimeLimit(CONNECT_TIMEOUT_MS, [stop], {
    timeUp: () => new RunError(`${target.name} does not answer`),
  });
  try {
    if (readOnly) await requireReadOnly(target, limit.signal);
    const server = await target.open(limit.signal);
    return {
      serve: (transport) => {
        // The browser has signed in.
        transport.peerInitialized?.();
        const textOnly = !carriesBytes(server);
        return joinTransports(transport, server, { rewrite: limitingRewrite({ readOnly, textOnly }) });
      },
      close: () => server.close({ code: 1000, reason: 'the page did not connect' }),
    };
  } finally {
    limit.end();
  }
}

function portOf({ port = '0' }: Flags): number {
  if (isPort(port)) return Number(port);
  throw new UsageError(`--port: ${quoteValue(port)} is not a port, 0 to 65535`, 'console');
}
