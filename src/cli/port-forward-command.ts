import { withTimeout } from '../base/with-timeout.ts';
import { ClientError, messageWithoutHint } from '../client/errors.ts';
import { FREQUENT_PINGS } from '../client/limits.ts';
import { PortForward } from '../client/tcp/port-forward.ts';
import { requireTcp, type TcpTarget } from '../client/tcp/tcp-streams.ts';
import { quoteValue } from '../server/config/values.ts';
import { type CommandResult, type Host, printed } from './commands.ts';
import { parseDuration } from './duration.ts';
import { currentDirectory } from './environments/current-directory.ts';
import { findTarget, LOCAL, type Target } from './environments/target.ts';
import { RunError, UsageError } from './failures.ts';
import { type GivenFlags, parseFlags } from './flags.ts';
import { AutoForward } from './ports/auto-forward.ts';
import { ForwardReport } from './ports/forward-report.ts';
import {
  type ForwardSpec,
  hostAndPort,
  isLoop,
  isPort,
  LOOPBACK,
  parseForwards,
  remoteText,
} from './ports/forward-spec.ts';
import { LastingClient } from './ports/lasting-client.ts';
import { CLOSE_TIMEOUT_MS } from './ports/limits.ts';
import { openSocksProxy } from './ports/socks-proxy.ts';
import { PORT_FORWARD_FLAGS } from './specs/port-forward-spec.ts';

type Flags = GivenFlags<typeof PORT_FORWARD_FLAGS>;

/** What to forward: one of the three. */
type Plan =
  | { readonly kind: 'ports'; readonly specs: readonly ForwardSpec[] }
  | { readonly kind: 'auto' }
  | { readonly kind: 'socks'; readonly port: number };

/** What is being forwarded. */
interface Forwarding {
  /** How many connections are being forwarded. */
  readonly openStreams: number;
}

/** Forwards ports until a signal arrives. */
export async function portForwardCommand(argv: readonly string[], host: Host): Promise<CommandResult> {
  const { flags, positionals } = parseFlags('port-forward', argv, PORT_FORWARD_FLAGS);
  const plan = planOf(flags, positionals);
  const timeout = flags['reconnect-timeout'];
  const giveUpAfterMs =
    timeout === undefined ? null : parseDuration(timeout, '--reconnect-timeout', 'port-forward');
  const target = await findTarget(
    { environment: flags.environment ?? null, tokenFile: flags['token-file'] ?? null },
    { env: host.env, directory: currentDirectory() },
  );
  if (target.name === LOCAL && plan.kind === 'ports') plan.specs.forEach(refuseLoop);
  // Forwarding goes on when the reader of the messages is gone.
  host.stderr.on('error', () => {});
  const stop = new AbortController();
  const stopped = new Promise<null>((resolve) => {
    host.onSignal(() => {
      stop.abort();
      resolve(null);
    });
  });
  const report = new ForwardReport(host, flags.json === true);
  const opening = openClient(target, giveUpAfterMs, report, stop.signal);
  const client = await Promise.race([opening, stopped]);
  if (client === null) return printed('');
  // Signals and the connection do not keep Node running.
  const keepRunning = setInterval(() => {}, 2 ** 30);
  try {
    const forwarding = await Promise.race([start(plan, client, report), stopped]);
    if (forwarding === null) return printed('');
    client.onStateChange((state, reason) => {
      if (state === 'recovering')
        report.lost(reason?.message ?? 'the connection was lost', forwarding.openStreams);
      if (state === 'connected') report.reconnected();
    });
    await Promise.race([stopped, client.ended]);
    return printed('');
  } finally {
    clearInterval(keepRunning);
    await withTimeout(client.close(), CLOSE_TIMEOUT_MS);
  }
}

/** The server is on this machine, too. Throws UsageError for a port that each connection would come back to. */
function refuseLoop(spec: ForwardSpec): void {
  if (!isLoop(spec)) return;
  throw new UsageError(
    `port ${spec.port} of this machine would be forwarded to itself; name another machine with -E, or another local port: 0:${spec.port}`,
    'port-forward',
  );
}

function planOf(flags: Flags, operands: readonly string[]): Plan {
  const refuse = (problem: string) => new UsageError(problem, 'port-forward');
  const kinds = [operands.length > 0, flags.auto === true, flags.socks !== undefined].filter(Boolean).length;
  if (kinds === 0) throw refuse('name a port such as 8080 or 9000:8080, or use --auto or -D PORT');
  if (kinds > 1) throw refuse('ports, --auto and -D exclude each other; run one command for each');
  if (flags.auto) return { kind: 'auto' };
  if (flags.socks === undefined) return { kind: 'ports', specs: parseForwards(operands) };
  if (!isPort(flags.socks)) throw refuse(`-D: ${quoteValue(flags.socks)} is not a port, 0 to 65535`);
  return { kind: 'socks', port: Number(flags.socks) };
}

function openClient(
  target: Target,
  giveUpAfterMs: number | null,
  report: ForwardReport,
  signal: AbortSignal,
): Promise<LastingClient> {
  const connect = (stop: AbortSignal) =>
    target.connect({
      clientName: 'exec-server port-forward',
      signal: stop,
      // Streams end with their connection, so there is nothing to resume.
      recoveryWindowMs: 0,
      detachedSessionTtlMs: 0,
      ...FREQUENT_PINGS,
    });
  return LastingClient.open({ connect, giveUpAfterMs, onRetry: (error) => report.stillLost(error) }, signal);
}

async function start(plan: Plan, client: LastingClient, report: ForwardReport): Promise<Forwarding> {
  await checkAllowed(client);
  switch (plan.kind) {
    case 'ports':
      return forwardAll(plan.specs, client, report);
    case 'auto':
      return forwardAutomatically(client, report);
    case 'socks':
      return forwardSocks(plan.port, client, report);
  }
}

/** Throws RunError when the token does not allow streams. Closing a stream that does not exist has no effect. */
async function checkAllowed({ current }: LastingClient): Promise<void> {
  requireTcp(current);
  try {
    await current.call('tcp/close', { streamId: 'none' });
  } catch (error) {
    if (!(error instanceof ClientError) || error.kind !== 'permissionDenied') throw error;
    throw new RunError(
      "the token does not allow to forward ports: it needs the scope net; create one with 'exec-server token signed --scope net,…'",
      { kind: error.kind },
    );
  }
}

/** Opens all ports or none. */
async function forwardAll(
  specs: readonly ForwardSpec[],
  client: LastingClient,
  report: ForwardReport,
): Promise<Forwarding> {
  const forwards: PortForward[] = [];
  for (const spec of specs) {
    const target = remoteText(spec);
    const forward = PortForward.open(reporting(client, report), {
      host: spec.host,
      port: spec.port,
      localHost: spec.bind,
      localPort: spec.localPort,
      onError: (error) => report.failed(target, error),
    });
    forwards.push(
      await forward.catch((error: ClientError) => {
        throw cannotListen(
          error,
          `0:${spec.host === LOOPBACK ? spec.port : hostAndPort(spec.host, spec.port)}`,
        );
      }),
    );
  }
  for (const [index, { bind, host, port }] of specs.entries()) {
    report.listening({ bind, port: forwards[index]!.port, remote: { host, port }, ref: null, note: null });
  }
  return {
    get openStreams() {
      return forwards.reduce((sum, forward) => sum + forward.openStreams, 0);
    },
  };
}

async function forwardAutomatically(client: LastingClient, report: ForwardReport): Promise<Forwarding> {
  const auto = new AutoForward(reporting(client, report), report);
  const watch = () => client.current.watchPorts((ports) => auto.update(ports));
  await watch();
  client.onStateChange((state) => {
    if (state !== 'connected') return;
    const { current } = client;
    watch().catch((error: Error) => {
      // A further loss is reported, and the next connection tries again.
      if (current.state === 'connected') report.failed(null, error);
    });
  });
  return auto;
}

async function forwardSocks(port: number, client: LastingClient, report: ForwardReport): Promise<Forwarding> {
  const onError = (error: Error, target: string | null) => report.failed(target, error);
  const listener = await openSocksProxy(reporting(client, report), { bind: LOOPBACK, port, onError }).catch(
    (error: ClientError) => {
      throw cannotListen(error, '-D 0');
    },
  );
  report.listening({ bind: LOOPBACK, port: listener.port, remote: null, ref: null, note: null });
  return listener;
}

/** The client, with a report of each stream that was opened. */
function reporting(client: LastingClient, report: ForwardReport) {
  return {
    get state() {
      return client.state;
    },
    onStateChange: client.onStateChange.bind(client),
    async connectTcp(target: TcpTarget, options?: { readonly signal?: AbortSignal }) {
      const stream = await client.connectTcp(target, options);
      report.succeeded(remoteText({ host: target.host ?? LOOPBACK, port: target.port }));
      return stream;
    },
  };
}

function cannotListen(error: ClientError, other: string): RunError {
  return new RunError(`${messageWithoutHint(error)}; write '${other}' to listen on any free port`, {
    kind: error.kind,
  });
}
