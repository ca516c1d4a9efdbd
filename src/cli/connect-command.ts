import { createLogger } from '../observability/log.ts';
import { logStream } from '../observability/log-stream.ts';
import { type CommandResult, type Host, printed } from './commands.ts';
import { RunError, UsageError } from './failures.ts';
import { type GivenFlags, parseOnlyFlags } from './flags.ts';
import { hideOwnEnvironment } from './process-setup.ts';
import { codexFlags, REMOTE_TRANSPORT_FLAGS, reportIgnored, signingOf } from './reference-flags.ts';
import { asRunError, connectedLine, openAuth, startExecutor } from './registry-auth.ts';
import { rejectTwoCredentials } from './server-arguments.ts';
import { CONNECT_FLAGS } from './specs/connect-spec.ts';

/** Forwards until a signal arrives. */
export async function connectCommand(argv: readonly string[], host: Host): Promise<CommandResult> {
  const flags = parseOnlyFlags('connect', argv, CONNECT_FLAGS);
  host.surviveHangup();
  await forward(flags, host);
  return printed('');
}

async function forward(flags: Flags, host: Host): Promise<void> {
  rejectTwoCredentials(flags, 'connect');
  hideOwnEnvironment();
  // The forwarder keeps running when its log reader goes away.
  host.stderr.on('error', () => {});
  const [url, remote] = [required(flags, 'connect'), required(flags, 'remote')];
  const environmentId = required(flags, 'environment-id');
  if (!URL.canParse(url) || !/^wss?:$/.test(new URL(url).protocol)) {
    throw new UsageError('--connect is not a ws:// or wss:// URL', 'connect');
  }
  rejectDirectTransport(flags);
  const codex = codexFlags(flags, 'connect');
  if (codex.file !== null) throw new UsageError('--config takes KEY=VALUE only', 'connect');
  reportIgnored(codex.warnings, host);
  const stop = new AbortController();
  const stopped = new Promise<void>((resolve) => {
    host.onSignal((signal) => {
      if (signal !== 'SIGHUP') resolve();
    });
    if (flags['exit-on-stdin-close']) host.stdin.once('end', resolve).once('error', () => resolve());
  });
  const registry = {
    command: 'connect',
    remote,
    environmentId,
    credentialStdin: flags['executor-credential-stdin'] === true,
    agentIdentity: flags['use-agent-identity-auth'] === true,
    configOverrides: codex.signIn,
  };
  const log = createLogger('warn', logStream(host.stderr));
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

type Flags = GivenFlags<typeof CONNECT_FLAGS>;

/** Throws for flags of the direct transport: UsageError or RunError, which exit with the codes of the reference. */
function rejectDirectTransport(flags: Flags): void {
  const aws = Object.keys(REMOTE_TRANSPORT_FLAGS).find((name) => name.startsWith('aws-') && name in flags);
  const isDirect = flags['remote-transport'] === 'direct';
  if (!isDirect && aws === undefined) {
    signingOf(flags, 'connect');
    return;
  }
  const problem = isDirect
    ? 'the direct transport cannot forward; use --remote-transport noise'
    : `--${aws} is only for the direct transport, which cannot forward; leave it out`;
  const credentials = flags['executor-credential-stdin'] || flags['use-agent-identity-auth'];
  throw flags['aws-sigv4'] && !credentials ? new RunError(problem) : new UsageError(problem, 'connect');
}

function required(flags: Flags, name: 'connect' | 'remote' | 'environment-id'): string {
  const value = flags[name]?.trim();
  if (value) return value;
  throw new UsageError(`--${name} is required`, 'connect');
}
