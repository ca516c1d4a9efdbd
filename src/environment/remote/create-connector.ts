import { type ConnectOptions, ExecServerClient } from '../../client/client.ts';
import type { OptionNames } from '../../client/connection/option-checks.ts';
import type { PolicyHandler } from '../../client/connection/policy-requests.ts';
import type { TraceSource } from '../../client/connection/trace.ts';
import { ClientError } from '../../client/errors.ts';
import { RemoteFileSystem } from '../../client/files/remote-file-system.ts';
import { CONNECT_TIMEOUT_MS } from '../../client/limits.ts';
import { stdioCommand } from '../../client/stdio.ts';
import type { CommandTarget, EnvironmentTransport, OpenerTarget, WebSocketTarget } from '../provider.ts';
import type { AcceptedSockets } from './accepted-sockets.ts';
import type { Connection, Connector } from './connection.ts';

/** Settings for all clients of a program. */
export interface ClientSettings {
  /** The name of the caller, for the logs of the servers. */
  readonly clientName?: string;
  /** Receives what servers on stdio write to stderr. */
  readonly onStderr?: (line: string) => void;
  /**
   * How long to try to resume a session after a loss, where the transport does not say. 0 gives up immediately; `none` never does.
   * Default: 25 s. A server on stdio ends with its connection.
   */
  readonly recoveryWindowMs?: number | 'none';
  /** Decides about connections to hosts that no pattern of the program's network proxy covers. Without it they are denied. */
  readonly onNetworkPolicyRequest?: PolicyHandler;
  /** Returns the trace context of a call. */
  readonly trace?: TraceSource;
}

/** The names of {@link ClientSettings}. */
export const CLIENT_SETTINGS: OptionNames<ClientSettings> = {
  clientName: true,
  onStderr: true,
  recoveryWindowMs: true,
  onNetworkPolicyRequest: true,
  trace: true,
};

/** Creates the connector for a transport. */
export function createConnector(transport: EnvironmentTransport, settings: ClientSettings = {}): Connector {
  switch (transport.type) {
    case 'websocket':
      return webSocketConnector(transport, settings);
    case 'stdio':
      return commandConnector(transport, settings);
    case 'opener':
      return openerConnector(transport, settings);
  }
}

/** Creates the connector for connections that the executor opens. They share one session, so a failed one cannot be replaced. */
export function acceptedConnector(sockets: AcceptedSockets, settings: ClientSettings = {}): Connector {
  const source = { open: (signal: AbortSignal) => sockets.open(signal), resumable: true };
  return {
    reconnects: false,
    eager: true,
    retryWindowMs: 0,
    connect: (signal) => connect(source, settings, signal),
  };
}

function webSocketConnector(target: WebSocketTarget, settings: ClientSettings): Connector {
  const { url, authToken, connectTimeoutMs = CONNECT_TIMEOUT_MS } = target;
  const options = {
    url,
    connectTimeoutMs,
    ...(authToken != null && { authToken }),
    ...timeoutOf(target),
    ...recoveryOf(target),
  };
  return {
    reconnects: true,
    eager: true,
    retryWindowMs: connectTimeoutMs,
    async connect(signal) {
      refuseRelay(url);
      return connect(options, settings, signal);
    },
  };
}

/** Rejects the URL of a relay, which has another protocol. */
function refuseRelay(url: string): void {
  if (!URL.canParse(url) || new URL(url).searchParams.get('role') !== 'harness') return;
  throw new ClientError('config', 'a URL with role=harness is a relay URL, which this transport cannot use', {
    hint: 'use the URL of a server',
  });
}

function commandConnector(target: CommandTarget, settings: ClientSettings): Connector {
  const { program, args = [], env = {}, cwd = null } = target;
  return {
    reconnects: false,
    eager: false,
    retryWindowMs: 0,
    async connect(signal) {
      const source = stdioCommand({
        program,
        args,
        env,
        ...(cwd !== null && { cwd }),
        ...(settings.onStderr && { onStderr: settings.onStderr }),
      });
      return connect({ ...source, ...timeoutOf(target) }, settings, signal);
    },
  };
}

function openerConnector(target: OpenerTarget, settings: ClientSettings): Connector {
  const { connectTimeoutMs = CONNECT_TIMEOUT_MS, resumable } = target;
  const open = (signal: AbortSignal) => target.open(signal);
  const options = { open, resumable, connectTimeoutMs, ...timeoutOf(target), ...recoveryOf(target) };
  return {
    reconnects: true,
    eager: true,
    retryWindowMs: connectTimeoutMs,
    connect: (signal) => connect(options, settings, signal),
  };
}

function timeoutOf({ initializeTimeoutMs }: EnvironmentTransport): { initializeTimeoutMs?: number } {
  return initializeTimeoutMs === undefined ? {} : { initializeTimeoutMs };
}

type RecoveryOption = Pick<ClientSettings, 'recoveryWindowMs'>;

function recoveryOf({ recoveryWindowMs }: RecoveryOption): RecoveryOption {
  return recoveryWindowMs === undefined ? {} : { recoveryWindowMs };
}

async function connect(
  options: ConnectOptions,
  settings: ClientSettings,
  signal: AbortSignal,
): Promise<Connection> {
  const { clientName = 'exec-server-environment', onNetworkPolicyRequest, trace } = settings;
  const client = await ExecServerClient.connect({
    ...recoveryOf(settings),
    ...options,
    clientName,
    signal,
    ...(onNetworkPolicyRequest && { onNetworkPolicyRequest }),
    ...(trace && { trace }),
  });
  return { client, backend: client.backend, files: new RemoteFileSystem(client), http: client.http };
}
