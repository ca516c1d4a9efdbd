import type * as z from 'zod/mini';
import * as capabilities from './capabilities.ts';
import { type MethodDefinition, method, type NotificationDefinition, notification } from './define.ts';
import * as environment from './environment.ts';
import * as environmentConfig from './environment-config.ts';
import { FILE_METHODS } from './file-methods.ts';
import * as files from './files.ts';
import * as http from './http.ts';
import * as legacy from './legacy.ts';
import { MAX_METHOD_LENGTH } from './limits.ts';
import * as network from './network.ts';
import * as process from './process.ts';
import { PROCESS_METHODS } from './process-methods.ts';
import * as session from './session.ts';
import * as sharing from './sharing.ts';
import * as tcp from './tcp.ts';

const exec = { family: 'exec', needs: 'exec', subject: 'processId' } as const;
const stream = {
  family: 'tcp',
  needs: 'net',
  subject: 'streamId',
  origin: 'extension',
  capability: 'tcpStreams',
} as const;
const web = { family: 'http', needs: 'net', subject: 'requestId' } as const;

/**
 * Every request that a client can send. The server's handlers, the client's calls, the schemas and the
 * documentation derive from this table.
 */
export const METHODS = {
  initialize: method({
    family: 'session',
    needs: 'none',
    params: session.InitializeParams,
    result: session.InitializeResult,
    summary: 'Opens a session, or resumes one after a lost connection. The first request of a connection.',
  }),
  'environment/info': method({
    family: 'environment info',
    needs: 'none',
    lane: 'control',
    params: environment.EnvironmentInfoParams,
    result: environment.EnvironmentInfo,
    summary: 'Describes the machine and the capabilities of the server.',
  }),
  'environment/status': method({
    family: 'environment status',
    needs: 'none',
    lane: 'control',
    params: environment.EnvironmentStatusParams,
    result: environment.EnvironmentStatusResult,
    summary: 'Checks that the server is alive. The cheapest call.',
  }),
  'capabilityRoots/discoverV1': method({
    family: 'capability discovery',
    needs: 'files.read',
    pathRestrictable: false,
    params: capabilities.CapabilityRootsDiscoverParams,
    result: capabilities.CapabilityRootsDiscoverResult,
    summary: 'Reads the plugin manifests and skills below directories.',
  }),
  'capabilities/discoverV2': method({
    family: 'capability discovery',
    needs: 'files.read',
    pathRestrictable: false,
    capability: 'capabilityDiscoveryV2',
    params: capabilities.CapabilitiesDiscoverParams,
    result: capabilities.CapabilitiesDiscoverResult,
    summary: 'Lists the installed plugins and skills.',
  }),
  'environmentConfig/read': method({
    family: 'environment config',
    needs: 'files.read',
    pathRestrictable: false,
    capability: 'environmentConfigRead',
    params: environmentConfig.EnvironmentConfigReadParams,
    result: environmentConfig.EnvironmentConfigReadResult,
    summary: 'Reads the configuration of the machine, its user and a trusted project.',
  }),
  ...PROCESS_METHODS,
  'tcp/connect': method({
    ...stream,
    params: tcp.TcpConnectParams,
    result: tcp.TcpConnectResult,
    summary: 'Opens a TCP connection from the server. It ends with the connection of the client.',
  }),
  'tcp/data': method({
    ...stream,
    params: tcp.TcpDataParams,
    result: process.EmptyResult,
    summary:
      'Sends bytes to the peer. The server delays the result while the peer does not keep up. `tcp/closed` reports bytes that did not arrive.',
  }),
  'tcp/end': method({
    ...stream,
    params: tcp.TcpSubjectParams,
    result: process.EmptyResult,
    summary:
      'Ends the sending side after the earlier data. The result means that the system of the server has taken all of it.',
  }),
  'tcp/close': method({
    ...stream,
    lane: 'control',
    params: tcp.TcpSubjectParams,
    result: process.EmptyResult,
    summary:
      'Resets the stream, or stops opening it. The result means that its id is free. No error when there is none.',
  }),
  'tcp/consumed': method({
    ...stream,
    lane: 'control',
    params: tcp.TcpConsumedParams,
    result: process.EmptyResult,
    summary: 'Extends the flow-control window of a stream. No error when there is none.',
  }),
  'ports/watch': method({
    ...stream,
    subject: 'watchId',
    params: tcp.PortsWatchParams,
    result: tcp.PortsWatchResult,
    summary:
      "Reports the TCP ports that the owner's processes listen on, until `ports/unwatch` or the end of the connection.",
  }),
  'ports/unwatch': method({
    ...stream,
    subject: 'watchId',
    lane: 'control',
    params: tcp.PortsWatchParams,
    result: process.EmptyResult,
    summary: 'Ends a watch. No error when there is none.',
  }),
  ...FILE_METHODS,
  'http/request': method({
    ...web,
    capability: 'httpHeaderEnvVars',
    params: http.HttpRequestParams,
    result: http.HttpRequestResult,
    summary: 'Sends an HTTP request from the server. The response body comes with the result, or in chunks.',
  }),
  'http/cancel': method({
    ...web,
    origin: 'extension',
    lane: 'control',
    capability: 'httpCancel',
    params: http.HttpCancelParams,
    result: http.HttpCancelResult,
    summary: 'Cancels requests in progress: they fail, and a streamed body ends with an error.',
  }),
  'http/consumed': method({
    ...web,
    origin: 'extension',
    lane: 'control',
    capability: 'httpFlowControl',
    params: http.HttpConsumedParams,
    result: http.HttpConsumedResult,
    summary: 'Extends the flow-control window of a streamed body. No error when there is none.',
  }),
  'command/exec': method({
    ...exec,
    origin: 'legacy',
    capability: 'legacyCommandExec',
    params: legacy.CommandExecParams,
    result: legacy.CommandExecResult,
    summary: 'Starts a program that reports as `command/exec/outputDelta` and `command/exec/exited`.',
  }),
  'command/exec/write': method({
    ...exec,
    origin: 'legacy',
    capability: 'legacyCommandExec',
    params: legacy.CommandExecWriteParams,
    result: legacy.CommandExecWriteResult,
    summary: 'Writes to the stdin of a terminal process; anything else is an error.',
  }),
  'command/exec/terminate': method({
    ...exec,
    origin: 'legacy',
    lane: 'control',
    capability: 'legacyCommandExec',
    params: legacy.CommandExecTerminateParams,
    result: process.ProcessTerminateResult,
    summary: 'Same as `process/terminate`.',
  }),
} as const satisfies Record<string, MethodDefinition>;

/** Every notification, in either direction. */
export const NOTIFICATIONS = {
  initialized: notification({
    from: 'client',
    params: session.InitializedParams,
    summary: 'Acknowledges `initialize`. The other methods work from here on.',
  }),
  'process/output': notification({
    params: process.ProcessOutputParams,
    summary: 'A chunk of output, as the program wrote it.',
  }),
  'process/exited': notification({
    params: process.ProcessExitedParams,
    summary:
      'The program itself has exited. Its output that was readable then has a lower seq. Output of its descendants may follow.',
  }),
  'process/closed': notification({
    params: process.ProcessClosedParams,
    summary: 'The last event: the program has exited and every output stream has ended.',
  }),
  'process/started': notification({
    origin: 'extension',
    params: process.ProcessStartedParams,
    summary: 'On request: the program was executed.',
  }),
  'process/failed': notification({
    origin: 'extension',
    params: process.ProcessFailedParams,
    summary: 'On request: the program could not be started.',
  }),
  'process/attachment': notification({
    origin: 'extension',
    params: sharing.ProcessAttachmentParams,
    summary: 'The role of this connection for a process, or the set of attached clients, has changed.',
  }),
  'process/skipped': notification({
    origin: 'extension',
    params: sharing.ProcessSkippedParams,
    summary: 'A viewer reads too slowly: these events are not sent. Those still retained can be read.',
  }),
  'server/draining': notification({
    origin: 'extension',
    params: session.ServerDrainingParams,
    summary:
      'On request: the server is about to end. It starts no programs and opens no sessions, and ends when the last program has ended.',
  }),
  'tcp/data': notification({
    origin: 'extension',
    params: tcp.TcpReceivedParams,
    summary: 'Bytes from the peer of a TCP stream.',
  }),
  'tcp/end': notification({
    origin: 'extension',
    params: tcp.TcpSubjectParams,
    summary: 'The peer has ended its sending side.',
  }),
  'tcp/closed': notification({
    origin: 'extension',
    params: tcp.TcpClosedParams,
    summary: 'A TCP stream is over. Its id may be used again.',
  }),
  'ports/changed': notification({
    origin: 'extension',
    params: tcp.PortsChangedParams,
    summary: 'The listening ports have changed.',
  }),
  'fs/missingChanged': notification({
    params: files.FsMissingChangedParams,
    summary: 'A change that `fs/watchMissing` waits for has happened. The watch is over.',
  }),
  'fs/changed': notification({
    origin: 'extension',
    params: files.FsChangedParams,
    summary: 'Changes below a watched path, in the order in which they happened.',
  }),
  'network/policyDecision': notification({
    params: network.NetworkPolicyDecisionParams,
    summary: "A decision of a program's proxy about one request.",
  }),
  'http/request/bodyDelta': notification({
    params: http.HttpBodyDeltaParams,
    summary: 'A chunk of a streamed body, or its end. It follows the result of its `http/request`.',
  }),
  'command/exec/outputDelta': notification({
    origin: 'legacy',
    params: legacy.CommandExecOutputDeltaParams,
    summary: 'A chunk of output of a process started by `command/exec`.',
  }),
  'command/exec/exited': notification({
    origin: 'legacy',
    params: legacy.CommandExecExitedParams,
    summary: 'A process started by `command/exec` has ended and its output is complete.',
  }),
} as const satisfies Record<string, NotificationDefinition>;

/** Every request that a server can send. The server numbers them from 1 on each connection. */
export const CLIENT_METHODS = {
  'network/policyRequest': method({
    family: 'network policy',
    needs: 'none',
    capability: 'networkProxyLaunch',
    params: network.NetworkPolicyRequestParams,
    result: network.NetworkPolicyRequestResult,
    summary: 'Asks whether a program may reach a host that no pattern of its proxy allows.',
  }),
} as const satisfies Record<string, MethodDefinition>;

/** The name of a request. */
export type Method = keyof typeof METHODS;
/** The name of a notification. */
export type Notification = keyof typeof NOTIFICATIONS;
/** What a handler receives: validated params with defaults. */
export type ParamsOf<M extends Method> = z.output<(typeof METHODS)[M]['params']>;
/** What a caller passes: defaults may be left out. */
export type CallParamsOf<M extends Method> = z.input<(typeof METHODS)[M]['params']>;
/** The result of a method. */
export type ResultOf<M extends Method> = z.output<(typeof METHODS)[M]['result']>;
/** The params of a notification. */
export type NotificationParamsOf<N extends Notification> = z.output<(typeof NOTIFICATIONS)[N]['params']>;

/** Returns the method of the table that a request names, by its name or another one; null for an unknown name. */
export function methodNamed(name: string): Method | null {
  if (name.length <= MAX_METHOD_LENGTH && Object.hasOwn(METHODS, name)) return name as Method;
  return OTHER_NAMES.get(name) ?? null;
}

/** Accepted and not documented: early descriptions of the protocol call the method that starts a program `process/exec`. */
const OTHER_NAMES: ReadonlyMap<string, Method> = new Map([['process/exec', 'process/start']]);
