import * as z from 'zod/mini';
import { once } from '../base/once.ts';
import { doc, NoParams, optional } from './scalars.ts';

/** Every capability that a server can announce, with its meaning. An absent flag means false. */
export const CAPABILITIES = {
  networkProxyLaunch: '`process/start` accepts `networkProxy`.',
  networkProxyReviewDomains: 'The network proxy accepts `reviewDomains`.',
  credentialMasking: 'The network proxy accepts `credentialMasking`.',
  credentialMaskingCustomProviders: 'The network proxy accepts `credentialProviders`.',
  capabilityDiscoverySandbox: 'Capability discovery accepts a sandbox.',
  fsWatchMissing: '`fs/watchMissing` exists.',
  capabilityDiscoveryV2: '`capabilities/discoverV2` exists.',
  environmentConfigRead: '`environmentConfig/read` exists.',
  httpHeaderEnvVars: '`http/request` headers accept `valueEnvVar`.',
  sandboxedFileStreaming: '`fs/open` accepts a sandbox.',
  fileWriteStreaming: '`fs/open` mode `replace` and `fs/writeBlock` exist.',
  shellSnapshotV2: '`process/start` accepts `shellSnapshot`.',
  windowsMxc: 'The Windows sandbox level `mxc` exists.',
  linuxRootWritePreservesDevices: 'A sandbox with a writable root directory still protects devices.',
  linuxApprovedRootWritePreservesRestrictions:
    'A sandbox with an approved writable root directory keeps its restrictions.',
  pty: '`process/start` can open terminals.',
  processCloseStdin: '`process/closeStdin` exists.',
  processResize: '`process/resize` and an initial terminal size exist.',
  processWait: '`process/wait` exists.',
  processSnapshot: '`process/snapshot` exists.',
  processReadPosition: '`process/read` accepts `withPosition`.',
  processList: '`process/list` exists.',
  processSignals: '`process/signal` accepts any POSIX signal name.',
  processTerminateModes: '`process/terminate` accepts `mode`.',
  processStartForms: '`process/start` accepts the `direct` and `prepared` forms and `io`.',
  processLimits: '`process/start` accepts `limits`, and `reason` names the limit that ended a program.',
  lifecycleNotifications: '`initialize` can request `process/started` and `process/failed`.',
  droppedProcesses: '`initialize` can request which processes were dropped while they waited for a client.',
  readOnlyConnections: '`initialize` can give up the rights to change anything (`readOnly`).',
  drainNotice: '`initialize` can request `server/draining`, and a session while the server drains.',
  processOutputTimes: '`process/read` and `process/attach` accept `withTimes`.',
  processSharing:
    '`process/attach` and `process/detach` exist, `process/start` accepts `name` and `lifetime`, and `process/list` accepts `scope`.',
  processFlowControl:
    '`process/start` and `process/attach` accept `windowBytes`, and `process/consumed` exists.',
  processHoldOutput: '`process/start` accepts `holdOutput`.',
  processScreen: '`process/screen` exists.',
  processForget: '`process/forget` exists.',
  processSetLifetime: '`process/setLifetime` exists.',
  processRecording: '`process/start` accepts `record`, and `recordings/*` exist.',
  tcpStreams: '`tcp/*` and `ports/*` exist.',
  fsRename: '`fs/rename` exists.',
  fsAtomicReplace: '`fs/open` mode `atomicReplace` exists.',
  fsWatch: '`fs/watch`, `fs/unwatch` and `fs/changed` exist.',
  fsSearch: '`fs/search` exists.',
  fsAttributes:
    '`fs/list`, `fs/setAttributes` and `fs/createLink` exist, and `fs/open` accepts `attributes` and `durable`.',
  fsResume: '`fs/open` accepts `resumeKey`.',
  fsHash: '`fs/hash` exists.',
  fsIfSha256: '`fs/open` accepts `ifSha256`.',
  fsCloseHash: '`fs/open` accepts `hash`, and `fs/close` accepts `sha256`.',
  httpCancel: '`http/cancel` exists.',
  httpFlowControl: '`http/request` accepts `windowBytes`, and `http/consumed` exists.',
  binaryMessages: '`initialize` can request binary messages.',
  legacyCommandExec: 'The `command/exec` dialect exists.',
} as const;

/** The name of a capability flag. */
export type Capability = keyof typeof CAPABILITIES;

const Capabilities = once(() =>
  doc(
    z.looseObject(
      Object.fromEntries(
        Object.entries(CAPABILITIES).map(([name, text]) => [name, doc(z.optional(z.boolean()), text)]),
      ) as Record<Capability, z.ZodMiniOptional<z.ZodMiniBoolean>>,
    ),
    'The capabilities of this server. A missing flag means false.',
  ),
);

export const EnvironmentInfo = once(() =>
  z.looseObject({
    shell: doc(z.object({ name: z.string(), path: z.string() }), "The server user's login shell."),
    executorVersion: doc(z.optional(z.string()), 'Version of the server.'),
    providerId: doc(z.optional(z.string()), 'Stable for one host and one server build.'),
    cwd: doc(
      optional(z.string()),
      "The server's working directory, a `file:` URI. Null when it was removed before the first request for it.",
    ),
    userHomeDir: doc(z.optional(z.string()), "The server user's home directory, a `file:` URI."),
    platformOs: doc(z.optional(z.string()), '`linux`, `macos` or `windows`.'),
    prependPathDirs: doc(z.optional(z.array(z.string())), 'Helper directories prepended to PATH.'),
    temporaryDirectories: doc(z.optional(z.array(z.string())), 'Configured temporary directories.'),
    tempDir: doc(z.optional(z.string()), 'The temporary directory in use.'),
    capabilities: Capabilities(),
    limits: doc(
      z.optional(z.record(z.string(), z.union([z.number(), z.boolean()]))),
      'The limits in force. `detachedSessionTtlMs` and `maxDetachedSessionTtlMs` are -1 without a limit.',
    ),
  }),
);

export const EnvironmentInfoParams = NoParams;
export const EnvironmentStatusParams = NoParams;
export const EnvironmentStatusResult = once(() =>
  z.object({
    status: doc(z.literal('ready'), 'Always `ready`. Any result shows that the server is alive.'),
  }),
);
