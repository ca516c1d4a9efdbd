import { DEFAULT_ENV_POLICY } from '../../agent/launch/program-environment.ts';
import { withTimeout } from '../../base/with-timeout.ts';
import type { AgentServers } from '../../mcp/agent-server.ts';
import type { McpEnvironment, McpOptions } from '../../mcp/options.ts';
import { createLogger, type Logger } from '../../observability/log.ts';
import { logStream } from '../../observability/log-stream.ts';
import { childEnvironment } from '../../process/env-policy.ts';
import { quoteValue } from '../../server/config/values.ts';
import { type CommandResult, type Host, printed } from '../commands.ts';
import { findTarget, LOCAL, type Target } from '../environments/target.ts';
import { targetEnvironment } from '../environments/target-environment.ts';
import { UsageError } from '../failures.ts';
import { type GivenFlags, parseOnlyFlags } from '../flags.ts';
import { hideOwnEnvironment } from '../process-setup.ts';
import { MCP_FLAGS, MCP_LISTENER_FLAGS } from '../specs/mcp-spec.ts';
import { rootsOf } from './root-flags.ts';

/** How long the connections to environments may take to close. */
const CLOSE_TIMEOUT_MS = 2_000;

type Flags = GivenFlags<typeof MCP_FLAGS>;

/** Serves the Model Context Protocol, or prints the configuration of a client. */
export async function mcpCommand(argv: readonly string[], host: Host): Promise<CommandResult> {
  const [verb, ...rest] = argv;
  if (verb === 'config') return (await import('./client-config.ts')).mcpConfigCommand(rest, host);
  const flags = parseOnlyFlags('mcp', argv, MCP_FLAGS);
  rejectListenerFlags(flags);
  host.surviveHangup();
  hideOwnEnvironment();
  // The server goes on when the reader of its log is gone.
  host.stderr.on('error', () => {});
  const log = createLogger('warn', logStream(host.stderr));
  const { options, dispose } = await openEnvironments(flags, host, log);
  const servers = await createServers(options);
  try {
    if (flags.http === undefined) await serveOnStdio(servers, host, log);
    else await (await import('./http-mode.ts')).serveOnHttp(flags.http, flags, servers, options, host);
    return printed('');
  } finally {
    await withTimeout(Promise.all([servers.close(), dispose()]), CLOSE_TIMEOUT_MS);
  }
}

async function createServers(options: McpOptions): Promise<AgentServers> {
  (await import('../../mcp/uncompiled-schemas.ts')).leaveSchemasUncompiled();
  const { AgentServers } = await import('../../mcp/agent-server.ts');
  return new AgentServers(options);
}

function rejectListenerFlags(flags: Flags): void {
  if (flags.http !== undefined) return;
  const given = Object.keys(MCP_LISTENER_FLAGS).find((name) => name in flags);
  if (given !== undefined) throw new UsageError(`--${given} needs --http HOST:PORT`, 'mcp');
}

async function serveOnStdio(servers: AgentServers, host: Host, log: Logger): Promise<void> {
  const { serveMcpStdio } = await import('../../mcp/serve-stdio.ts');
  const client = serveMcpStdio(servers, host.stdin, host.stdout, log);
  if (host.isTerminal) host.stderr.write(ON_A_TERMINAL);
  const stopped = new Promise<void>((resolve) => host.onSignal(() => resolve()));
  await Promise.race([client.closed, stopped]);
  await client.close();
}

const ON_A_TERMINAL =
  "exec-server mcp: waiting for an MCP client on stdin; 'exec-server mcp config claude' shows how to configure one\n";

/** What the flags of the tools mean. */
async function openEnvironments(
  flags: Flags,
  host: Host,
  log: Logger,
): Promise<{ readonly options: McpOptions; dispose(): Promise<unknown> }> {
  const directory = process.cwd();
  const targets = await checkedTargets(flags, host, directory);
  const roots = rootsOf(flags.root ?? [], targets, directory);
  const opened = targets.map((target) => targetEnvironment(target, 'exec-server mcp'));
  const environments = opened.map(
    (environment, index): McpEnvironment => ({
      name: environment.id,
      environment,
      isLocal: environment.id === LOCAL,
      roots: roots[index]!,
      // The private server has the variables of the command that happened to start it, perhaps in another project.
      ...(environment.id === LOCAL && { env: programVariables(host.env) }),
    }),
  );
  const options: McpOptions = {
    environments,
    readOnly: flags['read-only'] === true,
    sandbox: sandboxOf(flags.sandbox),
    ask: flags.ask === true,
    directory,
    confineRoots: flags.http !== undefined,
    log,
  };
  return { options, dispose: () => Promise.all(opened.map((environment) => environment.dispose())) };
}

/** The variables of this command that a program of a server inherits. */
function programVariables(env: NodeJS.ProcessEnv): Readonly<Record<string, string>> {
  return childEnvironment({ env: {}, policy: DEFAULT_ENV_POLICY, metadata: null }, env);
}

/** The environments of -E. Throws UsageError for those that mean nothing. */
export async function checkedTargets(
  flags: Pick<Flags, 'environment' | 'token-file'>,
  host: Pick<Host, 'env'>,
  directory: string,
): Promise<readonly Target[]> {
  const names: readonly (string | null)[] = flags.environment ?? [null];
  const tokenFile = flags['token-file'] ?? null;
  if (names.length > 1 && tokenFile !== null) {
    throw new UsageError(
      "--token-file is for a single environment; name the others with 'exec-server env add --token-file'",
      'mcp',
    );
  }
  const sources = { env: host.env, directory };
  const targets = await Promise.all(
    names.map((environment) => findTarget({ environment, tokenFile }, sources)),
  ).catch((error: Error) => {
    throw error instanceof UsageError ? new UsageError(error.message, 'mcp') : error;
  });
  const twice = targets.find(({ name }, index) => targets.findIndex((other) => other.name === name) < index);
  if (twice !== undefined)
    throw new UsageError(`the environment ${quoteValue(twice.name)} is given twice`, 'mcp');
  return targets;
}

/** The sandbox of `--sandbox`. */
export function sandboxOf(value: string | undefined): McpOptions['sandbox'] {
  const sandbox = value ?? 'workspace-write';
  if (sandbox === 'read-only' || sandbox === 'workspace-write' || sandbox === 'off') return sandbox;
  throw new UsageError(
    `--sandbox: ${quoteValue(sandbox)} is not one of read-only, workspace-write, off`,
    'mcp',
  );
}
