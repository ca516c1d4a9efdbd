import { isLoopback, ListenUrlError, parseListenUrl, type SocketAddress } from '../../listener/listen-url.ts';
import type { AgentServers } from '../../mcp/agent-server.ts';
import { McpListener } from '../../mcp/http/mcp-listener.ts';
import type { McpOptions } from '../../mcp/options.ts';
import { openGate, openRevocations } from '../../server/auth/open-gate.ts';
import { CONFIG_OPTIONS, type ConfigKey, type ExecServerConfig } from '../../server/config/config.ts';
import { resolveConfig } from '../../server/config/resolve.ts';
import { quoteValue } from '../../server/config/values.ts';
import { refuseUnsafeAccess, tlsFilesOf } from '../../server/start-checks.ts';
import type { Host } from '../commands.ts';
import { UsageError } from '../failures.ts';
import type { GivenFlags } from '../flags.ts';
import { MCP_LISTENER_FLAGS } from '../specs/mcp-spec.ts';

/** Serves clients over HTTP until a signal arrives. Prints the URL. SIGHUP reloads certificates and revoked tokens. */
export async function serveOnHttp(
  place: string,
  flags: GivenFlags<typeof MCP_LISTENER_FLAGS>,
  servers: AgentServers,
  { readOnly, log }: McpOptions,
  host: Host,
): Promise<void> {
  const config = configOf(place, flags);
  const address = addressOf(place, config);
  refuseUnsafeAccess({ ...config, listen: `${address.secure ? 'https' : 'http'}://${place}` }, address);
  const revocations = await openRevocations(config);
  const listener = new McpListener(servers, {
    address,
    tls: tlsFilesOf(config, address),
    allowedHost: config.allowedHost,
    gate: await openGate(config, revocations),
    readOnly,
    log,
  });
  const url = await listener.listen();
  const stopped = new Promise<void>((resolve) => {
    host.onSignal((signal) => {
      if (signal !== 'SIGHUP') resolve();
      else
        Promise.all([listener.reload(), revocations?.reload()]).catch(({ message }: Error) =>
          log.error('cannot reload; the old files stay in use', { reason: message }),
        );
    });
  });
  if (!address.secure && !isLoopback(address.host)) {
    log.warn('connections are not encrypted: add --tls-cert and --tls-key', { listen: url });
  }
  host.stdout.write(`${url}\n`);
  await stopped;
  await listener.close();
}

/** The settings of the flags, checked as those of `serve`. */
function configOf(place: string, flags: GivenFlags<typeof MCP_LISTENER_FLAGS>): ExecServerConfig {
  const settings: Partial<Record<ConfigKey, string | boolean>> = {
    listen: `${flags['tls-cert'] === undefined ? 'ws' : 'wss'}://${place}`,
  };
  for (const { key, flag } of CONFIG_OPTIONS) {
    const name = flag.slice(2) as keyof typeof MCP_LISTENER_FLAGS;
    const value = Object.hasOwn(MCP_LISTENER_FLAGS, name) ? flags[name] : undefined;
    if (value !== undefined) settings[key] = value;
  }
  return resolveConfig({ flags: settings, overrides: {}, env: {}, toml: null }).config;
}

function addressOf(place: string, { listen }: ExecServerConfig): SocketAddress {
  try {
    return parseListenUrl(listen) as SocketAddress;
  } catch (error) {
    if (!(error instanceof ListenUrlError)) throw error;
    throw new UsageError(
      `--http: ${quoteValue(place)} is not IP:PORT, such as 127.0.0.1:8080 or [::1]:0`,
      'mcp',
    );
  }
}
