import type * as z from 'zod/mini';
import * as capabilities from './capabilities.ts';
import { type MethodDefinition, method, type NotificationDefinition, notification } from './define.ts';
import * as environment from './environment.ts';
import * as environmentConfig from './environment-config.ts';
import * as files from './files.ts';
import * as http from './http.ts';
import * as legacy from './legacy.ts';
import { MAX_METHOD_LENGTH } from './limits.ts';
import * as network from './network.ts';
import * as process from './process.ts';
import * as processStart from './process-start.ts';
import * as recordings from './recordings.ts';
import * as session from './session.ts';
import * as sharing from './sharing.ts';
import * as tcp from './tcp.ts';

const exec = { family: 'exec', needs: 'exec', subject: 'processId' } as const;
const observed = { ...exec, needs: 'processes.read' } as const;
const filesystem = { family: 'filesystem', needs: 'files.read' } as const;
const handle = { ...filesystem, subject: 'handleId' } as const;
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
  'process/start': method({
    ...exec,
    refused: processStart.PASSED_DESCRIPTORS,
    params: processStart.ProcessStartParams,
    result: processStart.ProcessStartResult,
    summary: 'Starts a program. The result means that it was executed.',
  }),
  'process/read': method({
    ...observed,
    params: process.ProcessReadParams,
    result: process.ProcessReadResult,
    summary: 'Returns retained output and the state. Can wait for new output.',
  }),
  'process/write': method({
    ...exec,
    params: process.ProcessWriteParams,
    result: process.ProcessWriteResult,
    summary: 'Queues bytes for stdin. The server delays the result while the child does not keep up.',
  }),
  'process/signal': method({
    ...exec,
    lane: 'control',
    params: process.ProcessSignalParams,
    result: process.EmptyResult,
    summary: 'Sends a signal to the process group. No error when the process is gone.',
  }),
  'process/terminate': method({
    ...exec,
    lane: 'control',
    params: process.ProcessTerminateParams,
    result: process.ProcessTerminateResult,
    summary: 'Ends the process and all its descendants.',
  }),
  'process/closeStdin': method({
    ...exec,
    origin: 'extension',
    lane: 'control',
    capability: 'processCloseStdin',
    params: process.ProcessSubjectParams,
    result: process.ProcessCloseStdinResult,
    summary: 'Closes stdin after the earlier writes.',
  }),
  'process/resize': method({
    ...exec,
    origin: 'extension',
    lane: 'control',
    capability: 'processResize',
    params: process.ProcessResizeParams,
    result: process.EmptyResult,
    summary: 'Sets the size of the terminal; the program gets SIGWINCH.',
  }),
  'process/wait': method({
    ...observed,
    origin: 'extension',
    capability: 'processWait',
    params: process.ProcessWaitParams,
    result: process.ProcessWaitResult,
    summary: 'Waits for the end of a process without delaying other requests.',
  }),
  'process/snapshot': method({
    ...observed,
    origin: 'extension',
    capability: 'processSnapshot',
    params: process.ProcessSubjectParams,
    result: process.ProcessSnapshotResult,
    summary: 'Returns the head and tail of each stream, and the number of bytes missing between them.',
  }),
  'process/list': method({
    family: 'exec',
    needs: 'processes.read',
    origin: 'extension',
    lane: 'control',
    capability: 'processList',
    params: process.ProcessListParams,
    result: process.ProcessListResult,
    summary:
      'Lists processes in the order of their starts, as many as fit into a megabyte. By default those of the session.',
  }),
  'process/attach': method({
    family: 'exec',
    needs: 'processes.read',
    origin: 'extension',
    capability: 'processSharing',
    params: sharing.ProcessAttachParams,
    result: sharing.ProcessAttachResult,
    summary:
      'Follows a process that another session started, that outlived its session, or that this session has detached from: this connection gets its notifications.',
  }),
  'process/detach': method({
    ...observed,
    origin: 'extension',
    capability: 'processSharing',
    params: sharing.ProcessDetachParams,
    result: process.EmptyResult,
    summary:
      'Stops following a process, which keeps running. This connection gets no more notifications of it, does not drive it and does not slow it, also after the session is resumed, until it attaches again. A session follows a process that it started with the lifetime `session` until its end: only the flow-control window ends. No error when there is nothing to end.',
  }),
  'process/consumed': method({
    ...exec,
    origin: 'extension',
    lane: 'control',
    capability: 'processFlowControl',
    params: sharing.ProcessConsumedParams,
    result: process.EmptyResult,
    summary: 'Extends the flow-control window of a process. No error when there is none.',
  }),
  'process/screen': method({
    ...observed,
    origin: 'extension',
    capability: 'processScreen',
    params: sharing.ProcessScreenParams,
    result: sharing.Screen,
    summary: 'Returns the screen of a terminal as it is now.',
  }),
  'process/forget': method({
    ...exec,
    origin: 'extension',
    capability: 'processForget',
    params: process.ProcessSubjectParams,
    result: process.EmptyResult,
    summary: 'Removes a process that has closed, with its retained output. Refused while it runs.',
  }),
  'process/setLifetime': method({
    ...exec,
    origin: 'extension',
    lane: 'control',
    capability: 'processSetLifetime',
    params: sharing.ProcessSetLifetimeParams,
    result: process.EmptyResult,
    summary: 'Turns a process into a detached one. Refused when it has closed.',
  }),
  'recordings/list': method({
    family: 'exec',
    needs: 'processes.read',
    origin: 'extension',
    capability: 'processRecording',
    params: recordings.RecordingsListParams,
    result: recordings.RecordingsListResult,
    summary: 'Lists recordings of processes, the oldest first, as many as fit into a megabyte.',
  }),
  'recordings/read': method({
    family: 'exec',
    needs: 'processes.read',
    origin: 'extension',
    capability: 'processRecording',
    params: recordings.RecordingsReadParams,
    result: recordings.RecordingsReadResult,
    summary: 'Returns bytes of a recording: lines in the format asciicast v3.',
  }),
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
  'fs/readFile': method({
    ...filesystem,
    params: files.FsReadFileParams,
    result: files.FsReadFileResult,
    summary: 'Returns a whole regular file of up to 512 MiB.',
  }),
  'fs/writeFile': method({
    ...filesystem,
    needs: 'files.write',
    params: files.FsWriteFileParams,
    result: files.FsDoneResult,
    summary: 'Writes a whole file in place: it keeps its inode, mode and links.',
  }),
  'fs/createDirectory': method({
    ...filesystem,
    needs: 'files.write',
    params: files.FsCreateDirectoryParams,
    result: files.FsDoneResult,
    summary: 'Creates a directory.',
  }),
  'fs/getMetadata': method({
    ...filesystem,
    params: files.FsGetMetadataParams,
    result: files.FsGetMetadataResult,
    summary: 'Returns the type, size and times of a path.',
  }),
  'fs/canonicalize': method({
    ...filesystem,
    params: files.FsCanonicalizeParams,
    result: files.FsCanonicalizeResult,
    summary: 'Returns the canonical path of an existing path.',
  }),
  'fs/readDirectory': method({
    ...filesystem,
    params: files.FsReadDirectoryParams,
    result: files.FsReadDirectoryResult,
    summary: 'Lists a directory of up to 50,000 entries.',
  }),
  'fs/walk': method({
    ...filesystem,
    params: files.FsWalkParams,
    result: files.FsWalkResult,
    summary: 'Lists a directory tree within limits.',
  }),
  'fs/remove': method({
    ...filesystem,
    needs: 'files.write',
    params: files.FsRemoveParams,
    result: files.FsDoneResult,
    summary: 'Removes a file, a symbolic link itself, or a directory tree.',
  }),
  'fs/copy': method({
    ...filesystem,
    needs: 'files.write',
    pathRestrictable: false,
    params: files.FsCopyParams,
    result: files.FsDoneResult,
    summary: 'Copies a file, a symbolic link or a directory tree.',
  }),
  'fs/rename': method({
    ...filesystem,
    needs: 'files.write',
    origin: 'extension',
    capability: 'fsRename',
    params: files.FsRenameParams,
    result: files.FsDoneResult,
    summary: 'Renames atomically within one file system. Replaces an existing file.',
  }),
  'fs/list': method({
    ...filesystem,
    origin: 'extension',
    capability: 'fsAttributes',
    params: files.FsListParams,
    result: files.FsListResult,
    summary:
      'Lists directories with the mode, size, time and link target of each entry. Follows no links in them. Leaves out the empty entries that exist only while a sandbox protects their names.',
  }),
  'fs/setAttributes': method({
    ...filesystem,
    needs: 'files.write',
    origin: 'extension',
    capability: 'fsAttributes',
    params: files.FsSetAttributesParams,
    result: files.FsDoneResult,
    summary:
      'Sets the mode and the modification time of a file or directory, or the time of a symbolic link itself.',
  }),
  'fs/createLink': method({
    ...filesystem,
    needs: 'files.write',
    pathRestrictable: false,
    origin: 'extension',
    capability: 'fsAttributes',
    params: files.FsCreateLinkParams,
    result: files.FsDoneResult,
    summary: 'Creates a symbolic link.',
  }),
  'fs/open': method({
    ...handle,
    params: files.FsOpenParams,
    result: files.FsOpenResult,
    summary: 'Opens a file to read or write it in blocks.',
  }),
  'fs/readBlock': method({
    ...handle,
    params: files.FsReadBlockParams,
    result: files.FsReadBlockResult,
    summary: 'Reads a block of an open file.',
  }),
  'fs/writeBlock': method({
    ...handle,
    needs: 'files.write',
    capability: 'fileWriteStreaming',
    params: files.FsWriteBlockParams,
    result: files.FsDoneResult,
    summary: 'Writes a block of an open file at its offset.',
  }),
  'fs/close': method({
    ...handle,
    params: files.FsCloseParams,
    result: files.FsDoneResult,
    summary: 'Closes a handle. No error when it is already closed. An atomic replacement takes effect here.',
  }),
  'fs/watchMissing': method({
    ...filesystem,
    pathRestrictable: false,
    capability: 'fsWatchMissing',
    params: files.FsWatchMissingParams,
    result: files.FsWatchMissingResult,
    summary: 'Watches once for missing paths to appear.',
  }),
  'fs/watch': method({
    ...filesystem,
    pathRestrictable: false,
    subject: 'watchId',
    origin: 'extension',
    capability: 'fsWatch',
    params: files.FsWatchParams,
    result: files.FsWatchResult,
    summary: 'Reports changes below a path as `fs/changed` until `fs/unwatch` or the end of the connection.',
  }),
  'fs/unwatch': method({
    ...filesystem,
    subject: 'watchId',
    origin: 'extension',
    lane: 'control',
    capability: 'fsWatch',
    params: files.FsUnwatchParams,
    result: files.FsDoneResult,
    summary: 'Ends a watch. No error when there is none.',
  }),
  'fs/hash': method({
    ...filesystem,
    origin: 'extension',
    capability: 'fsHash',
    params: files.FsHashParams,
    result: files.FsHashResult,
    summary: 'Returns the SHA-256 of regular files.',
  }),
  'fs/search': method({
    ...filesystem,
    pathRestrictable: false,
    origin: 'extension',
    capability: 'fsSearch',
    params: files.FsSearchParams,
    result: files.FsSearchResult,
    summary: 'Searches the content of files.',
  }),
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
