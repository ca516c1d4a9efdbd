import type { ExecServerConfig } from './config.ts';
import type { ConfigKey, ConfigOption, SpecFor } from './option-spec.ts';

const KIB = 1024;
const MIB = 1024 * KIB;
const GIB = 1024 * MIB;
const TIB = 1024 * GIB;
const SECOND = 1_000;
const HOUR = 3_600 * SECOND;
/** Longer than any session should last, and well below the 2^31 ms that a Node timer can hold. */
const WEEK = 168 * HOUR;
/** For counts without a natural ceiling. */
const MAX_COUNT = 2 ** 31 - 1;

/**
 * Every key of ExecServerConfig, in the order of the interface. A key missing here does not compile; flags, environment
 * variables, TOML, `exec-server config`, help and docs/cli.md all come from this table.
 * A description repeats the key's doc comment in config.ts, which a test compares.
 */
const SPECS: { readonly [K in ConfigKey]: SpecFor<ExecServerConfig[K]> } = {
  listen: {
    group: 'Connections',
    type: 'string',
    placeholder: 'URL',
    allowed: '`ws://IP:PORT`, `wss://IP:PORT`, `unix:///PATH`, `stdio` or `off`',
    description:
      'Where to listen: `ws://IP:PORT` or `wss://IP:PORT` (port 0 picks a free one), `unix:///PATH`, `stdio`, or `off`.',
  },
  tlsCert: {
    group: 'Connections',
    type: 'string',
    placeholder: 'FILE',
    allowed: 'the path of a file',
    description:
      'PEM file with the certificate of a `wss://` listener and those that lead to its authority. Read again on SIGHUP.',
  },
  tlsKey: {
    group: 'Connections',
    type: 'string',
    placeholder: 'FILE',
    allowed: 'the path of a file',
    description: 'PEM file with the private key that belongs to the certificate.',
  },
  tlsClientCa: {
    group: 'Connections',
    type: 'string',
    placeholder: 'FILE',
    allowed: 'the path of a file',
    description:
      'PEM file with the authorities whose certificates clients must show; without it clients need none.',
  },
  wsAuth: {
    group: 'Access',
    type: 'enum',
    values: ['none', 'capability-token', 'signed-bearer-token'],
    description:
      'Which token a websocket client must show: none, one fixed token, or one signed with a shared secret (HS256).',
  },
  wsTokenFile: {
    group: 'Access',
    type: 'string',
    placeholder: 'FILE',
    allowed: 'the path of a file',
    description: 'File with the token of `capability-token`; white space around it does not count.',
  },
  wsTokenSha256: {
    group: 'Access',
    type: 'string',
    placeholder: 'DIGEST',
    allowed: '64 hexadecimal digits',
    description: 'SHA-256 of the token of `capability-token`, in place of a file.',
  },
  wsSharedSecretFile: {
    group: 'Access',
    type: 'string',
    placeholder: 'FILE',
    allowed: 'the path of a file',
    description: 'File with the secret of `signed-bearer-token`, at least 32 bytes.',
  },
  wsIssuer: {
    group: 'Access',
    type: 'string',
    placeholder: 'TEXT',
    allowed: 'any text',
    description: 'The `iss` that signed tokens must have; any or none when empty.',
  },
  wsAudience: {
    group: 'Access',
    type: 'string',
    placeholder: 'TEXT',
    allowed: 'any text',
    description: 'The `aud` that signed tokens must have or list; any or none when empty.',
  },
  wsMaxClockSkewSeconds: {
    group: 'Access',
    type: 'integer',
    min: 0,
    max: MAX_COUNT,
    description: 'How far the clock of whoever signs tokens may be off.',
  },
  closeOnTokenExpiry: {
    group: 'Access',
    type: 'boolean',
    description:
      'End a connection when its signed token expires; otherwise a token only counts when a client connects.',
  },
  environmentId: {
    group: 'Access',
    type: 'string',
    placeholder: 'NAME',
    allowed: 'any text',
    description: 'The name of this environment; signed tokens that are for another one are refused.',
  },
  insecureNoAuth: {
    group: 'Access',
    type: 'boolean',
    description:
      'Listen without tokens on addresses that other machines reach: whoever reaches the port can run programs.',
  },
  allowedHost: {
    group: 'Access',
    type: 'string',
    placeholder: 'NAMES',
    allowed: 'names or addresses without ports, separated by commas',
    description: 'Names in Host headers that are answered beside loopback and the address listened on.',
  },
  concurrentRequests: {
    group: 'Connections',
    type: 'integer',
    min: 1,
    max: MAX_COUNT,
    description:
      'Requests of one connection that may run at once; control requests and long polls do not count.',
  },
  maxConnections: {
    group: 'Connections',
    type: 'integer',
    min: 1,
    max: MAX_COUNT,
    description:
      'Connections accepted at once; further ones are refused with 503. It is less where the system allows few open files.',
  },
  maxConnectionsPerAddress: {
    group: 'Connections',
    type: 'integer',
    min: 1,
    max: MAX_COUNT,
    description:
      'Connections accepted at once from one network address, or one IPv6 /64; those from this machine do not count.',
  },
  handshakeTimeoutMs: {
    group: 'Connections',
    type: 'duration',
    min: 10,
    max: HOUR,
    description: 'How long a connection may take to become a websocket, TLS and HTTP headers included.',
  },
  initializeTimeoutMs: {
    group: 'Connections',
    type: 'duration',
    min: 0,
    max: WEEK,
    description:
      'How long a websocket may take to send `initialize`; after that it is closed with 1008. 0 waits for ever.',
  },
  maxSessions: {
    group: 'Sessions and processes',
    type: 'integer',
    min: 1,
    max: MAX_COUNT,
    description:
      'Sessions kept at once, with a connection or without. Idle ones without make room; beyond that no new session is opened.',
  },
  detachedSessionTtlMs: {
    group: 'Sessions and processes',
    type: 'duration',
    min: 0,
    max: WEEK,
    description: 'How long a session outlives its connection. 0 ends its processes with the connection.',
  },
  closedProcessRetentionMs: {
    group: 'Sessions and processes',
    type: 'duration',
    min: 0,
    max: WEEK,
    description: 'How long a closed process stays readable and keeps its id.',
  },
  maxProcessesPerConnection: {
    group: 'Sessions and processes',
    type: 'integer',
    min: 1,
    max: MAX_COUNT,
    description: 'Processes of one session; closed ones make room for new ones.',
  },
  maxProcesses: {
    group: 'Sessions and processes',
    type: 'integer',
    min: 1,
    max: MAX_COUNT,
    description:
      'Processes of all sessions that run at once. It is less where the system allows few open files.',
  },
  maxFileHandles: {
    group: 'Sessions and processes',
    type: 'integer',
    min: 1,
    max: MAX_COUNT,
    description:
      'Files that all clients together hold open through handles. It is less where the system allows few open files.',
  },
  retainedOutputBytesPerProcess: {
    group: 'Output',
    type: 'bytes',
    min: 1,
    max: GIB,
    description: 'Output kept per process for `process/read`; the oldest chunks go first.',
  },
  retainedChunksPerProcess: {
    group: 'Output',
    type: 'integer',
    min: 1,
    max: MAX_COUNT,
    description: 'Output chunks kept per process for `process/read`.',
  },
  snapshotHeadBytes: {
    group: 'Output',
    type: 'bytes',
    min: 0,
    max: GIB,
    description: 'First bytes of each stream kept for `process/snapshot` whatever follows.',
  },
  shutdownGracePeriodMs: {
    group: 'Sessions and processes',
    type: 'duration',
    min: 0,
    max: HOUR,
    description: 'Time between SIGTERM and SIGKILL when the server shuts down.',
  },
  allowDirectExec: {
    group: 'Sessions and processes',
    type: 'boolean',
    description: 'Whether clients may start programs by plain parameters or the `direct` form.',
  },
  allowPreparedExec: {
    group: 'Sessions and processes',
    type: 'boolean',
    description: 'Whether clients may start programs by the `prepared` form.',
  },
  pingIntervalMs: {
    group: 'Connections',
    type: 'duration',
    min: 10,
    max: WEEK,
    description: 'Interval of websocket pings.',
  },
  peerSilenceTimeoutMs: {
    group: 'Connections',
    type: 'duration',
    min: 10,
    max: WEEK,
    description: 'A websocket peer from which nothing, not even a pong, arrives for this long is dropped.',
  },
  maxMessageBytes: {
    group: 'Messages',
    type: 'bytes',
    min: KIB,
    max: 256 * MIB,
    description: 'Largest incoming message.',
  },
  maxJsonDepth: {
    group: 'Messages',
    type: 'integer',
    min: 4,
    max: 1_000,
    description: 'Deepest nesting of an incoming message, the root object included.',
  },
  maxJsonValues: {
    group: 'Messages',
    type: 'integer',
    min: 16,
    max: MAX_COUNT,
    description: 'JSON values allowed in one incoming message.',
  },
  maxMessagesPerSecond: {
    group: 'Messages',
    type: 'integer',
    min: 1,
    max: MAX_COUNT,
    description:
      'Messages of one connection that are read per second, on average; a client that sends more is read more slowly.',
  },
  maxRequestBytesInFlight: {
    group: 'Messages',
    type: 'bytes',
    min: KIB,
    max: 4 * GIB,
    description:
      "Bytes of one connection's unanswered requests; beyond it nothing more is read, or what waits for a program is refused.",
  },
  maxResponseBytes: {
    group: 'Messages',
    type: 'bytes',
    min: KIB,
    max: GIB,
    description: 'Largest answer; a request that needs more is refused.',
  },
  outboundHighWaterBytes: {
    group: 'Messages',
    type: 'bytes',
    min: KIB,
    max: GIB,
    description: 'Bytes waiting for a slow client before its processes are paused.',
  },
  acceptNativePaths: {
    group: 'Protocol',
    type: 'boolean',
    description: 'Accept absolute native paths where the protocol asks for `file:` URIs.',
  },
  lenientNotifications: {
    group: 'Protocol',
    type: 'boolean',
    description: 'Answer an unexpected notification with an error and keep the connection.',
  },
  requireWriteId: {
    group: 'Protocol',
    type: 'boolean',
    description: 'Refuse `process/write` without a `writeId`.',
  },
  followDiscoveryLinks: {
    group: 'Protocol',
    type: 'boolean',
    description:
      'Have capability discovery follow links that lead out of a root; otherwise they are left out with a warning.',
  },
  nativeSpawn: {
    group: 'Sessions and processes',
    type: 'boolean',
    description: 'Start programs through libc; off falls back to child_process, which has no terminals.',
  },
  protectMemory: {
    group: 'Sessions and processes',
    type: 'boolean',
    description:
      "Keep programs from reading the server's memory, and write no core file of it; debuggers cannot attach to it either.",
  },
  minSandbox: {
    group: 'Sandbox',
    type: 'string',
    placeholder: 'FILE',
    allowed: 'the path of a file',
    description:
      'A JSON file with a `sandbox` object that holds for every request, also for those that ask for less or for none; empty for none.',
  },
  maxProcessMemoryBytes: {
    group: 'Limits of programs',
    type: 'bytes',
    min: 0,
    max: 1024 * TIB,
    description: 'Memory of a program and what it starts; 0 is no limit. A client can ask for less.',
  },
  maxProcessPids: {
    group: 'Limits of programs',
    type: 'integer',
    min: 0,
    max: MAX_COUNT,
    description:
      'Processes and threads of a program and what it starts, which needs control groups; 0 is no limit.',
  },
  maxProcessCpuPercent: {
    group: 'Limits of programs',
    type: 'integer',
    min: 0,
    max: 1_000_000,
    description:
      'Share of one processor for a program and what it starts, which needs control groups; 0 is no limit.',
  },
  maxProcessWallMs: {
    group: 'Limits of programs',
    type: 'duration',
    min: 0,
    max: WEEK,
    description: 'How long a program may run; 0 is no limit.',
  },
  maxProcessIdleMs: {
    group: 'Limits of programs',
    type: 'duration',
    min: 0,
    max: WEEK,
    description: 'How long a program may go without output; 0 is no limit.',
  },
  maxProcessOutputBytes: {
    group: 'Limits of programs',
    type: 'bytes',
    min: 0,
    max: 1024 * TIB,
    description: 'How much a program may write; 0 is no limit.',
  },
  httpAllowedHosts: {
    group: 'Requests to web servers',
    type: 'string',
    placeholder: 'HOSTS',
    allowed: 'host patterns such as `a.example` or `*.example`, separated by commas',
    description: 'Hosts that `http/request` may reach; every host when empty.',
  },
  httpDeniedHosts: {
    group: 'Requests to web servers',
    type: 'string',
    placeholder: 'HOSTS',
    allowed: 'host patterns such as `a.example` or `*.example`, separated by commas',
    description: 'Hosts that `http/request` may not reach.',
  },
  httpPrivateAddresses: {
    group: 'Requests to web servers',
    type: 'boolean',
    description:
      "Let `http/request` reach addresses that are not public: this machine, its network, a cloud's metadata.",
  },
  maxHttpBodyBytes: {
    group: 'Requests to web servers',
    type: 'bytes',
    min: KIB,
    max: GIB,
    description:
      "Bytes of bodies that one connection's `http/request`s hold at once; streamed ones hold next to nothing.",
  },
  auditLog: {
    group: 'Records',
    type: 'string',
    placeholder: 'FILE',
    allowed: 'the path of a regular file, which is made if it does not exist',
    description:
      'A file to which connections, starts, exits, file changes and refusals are appended; empty for none.',
  },
  auditOnError: {
    group: 'Records',
    type: 'enum',
    values: ['stop', 'continue'],
    description: 'Whether new work stops while the audit log cannot be written, or goes on unrecorded.',
  },
  auditFsync: {
    group: 'Records',
    type: 'boolean',
    description: 'Have every line of the audit log reach the disk before the work it speaks of goes on.',
  },
  otel: {
    group: 'Records',
    type: 'boolean',
    description:
      'Trace requests with OpenTelemetry, and carry their traces on to programs and web servers. Spans need an SDK in the process.',
  },
  metrics: {
    group: 'Records',
    type: 'boolean',
    description: 'Serve metrics for Prometheus at `/metrics`.',
  },
  logLevel: {
    group: 'Records',
    type: 'enum',
    values: ['debug', 'info', 'warn', 'error'],
    description: 'Least severe log record written to stderr.',
  },
};

/** Every option in table order. */
export const CONFIG_OPTIONS: readonly ConfigOption[] = Object.entries(SPECS).map(([key, spec]) => ({
  ...spec,
  key: key as ConfigKey,
  flag: `--${words(key.replace(/Ms$/, '')).join('-')}`,
  env: `EXEC_SERVER_${words(key).join('_').toUpperCase()}`,
}));

function words(camelCase: string): string[] {
  return camelCase.split(/(?=[A-Z])/).map((word) => word.toLowerCase());
}
