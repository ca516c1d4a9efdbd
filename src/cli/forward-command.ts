import { createLogger } from '../observability/log.ts';
import { type CommandResult, type Host, printed } from './commands.ts';
import { RunError, UsageError } from './failures.ts';
import { type GivenFlags, HELP_FLAG, parseOnlyFlags } from './flags.ts';
import { hideOwnEnvironment } from './process-setup.ts';
import {
  CODEX_FLAGS,
  codexFlags,
  REMOTE_TRANSPORT_FLAGS,
  reportIgnored,
  signingOf,
} from './reference-flags.ts';
import { asRunError, connectedLine, openAuth, startExecutor } from './registry-auth.ts';
import { rejectTwoCredentials } from './server-arguments.ts';

const FORWARD_HELP = `\
Usage: exec-server forward --connect URL --remote URL --environment-id ID
                           [options]

Makes a server on this machine reachable through a relay. Each client gets its
own connection to the server. When either end is lost, both connections close.

Options:
  --connect URL        The server: ws://HOST:PORT or wss://HOST:PORT.
  --remote URL         The registry: https://HOST, or http:// on this machine.
  --environment-id ID  The environment under which clients find the server.
  --name NAME          The name of this forwarder in logs.
  --executor-credential-stdin
                       Read credentials for the registry from stdin, as lines
                       of JSON; the forwarder ends when stdin ends.
  --use-agent-identity-auth
                       Sign in at the registry with the agent's token in
                       CODEX_ACCESS_TOKEN. By default the first one of these is
                       used: EXEC_SERVER_API_KEY, workload identity,
                       CODEX_API_KEY, CODEX_ACCESS_TOKEN, the login of codex.
  --exit-on-stdin-close
                       End when stdin ends.
  --remote-transport noise
                       The transport. direct is refused: it cannot forward.
  --aws-sigv4, --aws-profile PROFILE, --aws-region REGION,
  --aws-service SERVICE
                       Refused: only the direct transport uses them.
  -c, --config KEY=VALUE
                       Set a key of codex that decides how to sign in, such as
                       forced_login_method. Other keys have no effect.
  --enable FEATURE, --disable FEATURE, --linux-sandbox-pid-namespace MODE,
  --proxy-private-ips-via-upstream
                       Accepted without effect: they are for servers and codex.
  --strict-config      Refuse keys and features that have no effect.
  -h, --help           Print this help.
`;

/** Forwards until a signal arrives. */
export async function forwardCommand(argv: readonly string[], host: Host): Promise<CommandResult> {
  const flags = parseOnlyFlags('forward', argv, OPTIONS);
  if (flags.help) return printed(FORWARD_HELP);
  await forward(flags, host);
  return printed('');
}

async function forward(flags: Flags, host: Host): Promise<void> {
  rejectTwoCredentials(flags, 'forward');
  hideOwnEnvironment();
  // The forwarder keeps running when its log reader goes away.
  host.stderr.on('error', () => {});
  const [url, remote] = [required(flags, 'connect'), required(flags, 'remote')];
  const environmentId = required(flags, 'environment-id');
  if (!URL.canParse(url) || !/^wss?:$/.test(new URL(url).protocol)) {
    throw new UsageError('--connect is not a ws:// or wss:// URL', 'forward');
  }
  rejectDirectTransport(flags);
  const codex = codexFlags(flags, 'forward');
  if (codex.file !== null) throw new UsageError('--config takes KEY=VALUE only', 'forward');
  reportIgnored(codex.warnings, host);
  const stop = new AbortController();
  const stopped = new Promise<void>((resolve) => {
    host.onSignal((signal) => {
      if (signal !== 'SIGHUP') resolve();
    });
    if (flags['exit-on-stdin-close']) host.stdin.once('end', resolve).once('error', () => resolve());
  });
  const registry = {
    command: 'forward',
    remote,
    environmentId,
    credentialStdin: flags['executor-credential-stdin'] === true,
    agentIdentity: flags['use-agent-identity-auth'] === true,
    configOverrides: codex.signIn,
  };
  const log = createLogger('warn', (line) => host.stderr.write(line));
  const { auth: opening, ended, tls, settled } = await openAuth(registry, host, log, stop.signal);
  if (flags['exit-on-stdin-close']) host.stdin.resume();
  try {
    const auth = await Promise.race([opening, stopped.then(() => null)]);
    if (auth === null) return;
    const { forwardStream } = await import('../relay/forward/forward-stream.ts');
    const executor = await startExecutor(registry, {
      auth,
      tls,
      log,
      onConnected: () => void host.stderr.write(connectedLine(registry)),
      accept: (stream) => {
        forwardStream(stream, { url }).catch((error: Error) => {
          log.warn('cannot reach the server', { reason: error.message });
        });
      },
      ...(flags.name !== undefined && { name: flags.name }),
    });
    await Promise.race([executor.ended, ended, stopped]).finally(() => executor.close());
  } catch (error) {
    throw asRunError(error);
  } finally {
    stop.abort();
    await settled();
  }
}

type Flags = GivenFlags<typeof OPTIONS>;

/** Throws for flags of the direct transport: UsageError or RunError, which exit with the codes of the reference. */
function rejectDirectTransport(flags: Flags): void {
  const aws = Object.keys(REMOTE_TRANSPORT_FLAGS).find((name) => name.startsWith('aws-') && name in flags);
  const isDirect = flags['remote-transport'] === 'direct';
  if (!isDirect && aws === undefined) {
    signingOf(flags, 'forward');
    return;
  }
  const problem = isDirect
    ? 'the direct transport cannot forward; use --remote-transport noise'
    : `--${aws} is only for the direct transport, which cannot forward; leave it out`;
  const credentials = flags['executor-credential-stdin'] || flags['use-agent-identity-auth'];
  throw flags['aws-sigv4'] && !credentials ? new RunError(problem) : new UsageError(problem, 'forward');
}

function required(flags: Flags, name: 'connect' | 'remote' | 'environment-id'): string {
  const value = flags[name]?.trim();
  if (value) return value;
  throw new UsageError(`--${name} is required`, 'forward');
}

const OPTIONS = {
  connect: { type: 'string' },
  remote: { type: 'string' },
  'environment-id': { type: 'string' },
  name: { type: 'string' },
  'executor-credential-stdin': { type: 'boolean' },
  'use-agent-identity-auth': { type: 'boolean' },
  'exit-on-stdin-close': { type: 'boolean' },
  ...CODEX_FLAGS,
  ...REMOTE_TRANSPORT_FLAGS,
  help: HELP_FLAG,
} as const;
