import { type ConnectOptions, ExecServerClient } from '../../client/client.ts';
import type { PolicyHandler } from '../../client/connection/policy-requests.ts';
import type { TraceSource } from '../../client/connection/trace.ts';
import { ClientError } from '../../client/errors.ts';
import { RemoteFileSystem } from '../../client/files/remote-file-system.ts';
import { CONNECT_TIMEOUT_MS } from '../../client/limits.ts';
import { stdioCommand } from '../../client/stdio.ts';
import type { CommandTarget, EnvironmentTransport, OpenerTarget, WebSocketTarget } from '../provider.ts';
import type { AcceptedSockets } from './accepted-sockets.ts';
import type { Connection, Connector } from './connection.ts';

/** What all clients of a program have in common. */
export interface ClientSettings {
  /** Who is calling, for the logs of the servers. */
  readonly clientName?: string;
  /** Hears what servers on stdio write to stderr. */
  readonly onStderr?: (line: string) => void;
  /** Decides about hosts that programs want to reach and that no pattern of their proxy allows. Without it they are denied. */
  readonly onNetworkPolicyRequest?: PolicyHandler;
  /** Says which trace a call is part of. */
  readonly trace?: TraceSource;
}

/** Opens connections as the transport says. */
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

/** Connections that the executor opens. They carry one session: when it has failed there is nothing to connect to. */
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

/** A URL of this form is one of a relay, which does not speak the protocol of a server. */
function refuseRelay(url: string): void {
  if (!URL.canParse(url) || new URL(url).searchParams.get('role') !== 'harness') return;
  throw new ClientError('config', 'the URL with role=harness needs the relay transport', {
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
  const options = { open, resumable, connectTimeoutMs, ...timeoutOf(target) };
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

async function connect(
  options: ConnectOptions,
  { clientName = 'exec-server-environment', onNetworkPolicyRequest, trace }: ClientSettings,
  signal: AbortSignal,
): Promise<Connection> {
  const client = await ExecServerClient.connect({
    ...options,
    clientName,
    signal,
    ...(onNetworkPolicyRequest && { onNetworkPolicyRequest }),
    ...(trace && { trace }),
  });
  return { client, backend: client.backend, files: new RemoteFileSystem(client), http: client.http };
}
