import {
  DEFAULT_CLOSED_RETENTION_MS,
  DEFAULT_HEAD_BYTES,
  DEFAULT_MAX_PROCESSES,
  DEFAULT_RETAINED_BYTES,
  DEFAULT_RETAINED_CHUNKS,
} from '../../process/limits.ts';

/** Every limit and default of a server. One frozen object of this type configures everything below the listener. */
export interface ExecServerConfig {
  /** Where to listen: `ws://IP:PORT` or `wss://IP:PORT` (port 0 picks a free one), `unix:///PATH`, `stdio`, or `off`. */
  readonly listen: string;
  /** PEM file with the certificate of a `wss://` listener and those that lead to its authority. Read again on SIGHUP. */
  readonly tlsCert: string;
  /** PEM file with the private key that belongs to the certificate. */
  readonly tlsKey: string;
  /** PEM file with the authorities whose certificates clients must show; without it clients need none. */
  readonly tlsClientCa: string;
  /** Which token a websocket client must show: none, one fixed token, or one signed with a shared secret (HS256). */
  readonly wsAuth: WsAuth;
  /** File with the token of `capability-token`; white space around it does not count. */
  readonly wsTokenFile: string;
  /** SHA-256 of the token of `capability-token`, in place of a file. */
  readonly wsTokenSha256: string;
  /** File with the secret of `signed-bearer-token`, at least 32 bytes. */
  readonly wsSharedSecretFile: string;
  /** The `iss` that signed tokens must have; any or none when empty. */
  readonly wsIssuer: string;
  /** The `aud` that signed tokens must have or list; any or none when empty. */
  readonly wsAudience: string;
  /** How far the clock of whoever signs tokens may be off. */
  readonly wsMaxClockSkewSeconds: number;
  /** End a connection when its signed token expires; otherwise a token only counts when a client connects. */
  readonly closeOnTokenExpiry: boolean;
  /** File with the ids (`jti`) of signed tokens that are no longer good, one per line. Read again on SIGHUP. */
  readonly revokedTokens: string;
  /** The name of this environment; signed tokens that are for another one are refused. */
  readonly environmentId: string;
  /** Listen without tokens on addresses that other machines reach: whoever reaches the port can run programs. */
  readonly insecureNoAuth: boolean;
  /** Names in Host headers that are answered beside loopback and the address listened on. */
  readonly allowedHost: string;
  /** Requests of one connection that may run at once; control requests and long polls do not count. */
  readonly concurrentRequests: number;
  /** Connections accepted at once; further ones are refused with 503. It is less where the system allows few open files. */
  readonly maxConnections: number;
  /** Connections accepted at once from one network address, or one IPv6 /64; those from this machine do not count. */
  readonly maxConnectionsPerAddress: number;
  /** How long a connection may take to become a websocket, TLS and HTTP headers included. */
  readonly handshakeTimeoutMs: number;
  /** How long a websocket may take to send `initialize`; after that it is closed with 1008. 0 waits for ever. */
  readonly initializeTimeoutMs: number;
  /** Sessions kept at once, with a connection or without. Idle ones without make room; beyond that no new session is opened. */
  readonly maxSessions: number;
  /** How long a session outlives its connection. 0 ends its processes with the connection. */
  readonly detachedSessionTtlMs: number;
  /** How long a closed process stays readable and keeps its id. */
  readonly closedProcessRetentionMs: number;
  /** Processes of one session; closed ones make room for new ones. */
  readonly maxProcessesPerConnection: number;
  /** Processes of all sessions that run at once. It is less where the system allows few open files. */
  readonly maxProcesses: number;
  /** Files that all clients together hold open through handles. It is less where the system allows few open files. */
  readonly maxFileHandles: number;
  /** Output kept per process for `process/read`; the oldest chunks go first. */
  readonly retainedOutputBytesPerProcess: number;
  /** Output chunks kept per process for `process/read`. */
  readonly retainedChunksPerProcess: number;
  /** First bytes of each stream kept for `process/snapshot` whatever follows. */
  readonly snapshotHeadBytes: number;
  /** Time between SIGTERM and SIGKILL when the server shuts down. */
  readonly shutdownGracePeriodMs: number;
  /** Whether clients may start programs by plain parameters or the `direct` form. */
  readonly allowDirectExec: boolean;
  /** Whether clients may start programs by the `prepared` form. */
  readonly allowPreparedExec: boolean;
  /** Interval of websocket pings. */
  readonly pingIntervalMs: number;
  /** A websocket peer from which nothing, not even a pong, arrives for this long is dropped. */
  readonly peerSilenceTimeoutMs: number;
  /** Largest incoming message. */
  readonly maxMessageBytes: number;
  /** Deepest nesting of an incoming message, the root object included. */
  readonly maxJsonDepth: number;
  /** JSON values allowed in one incoming message. */
  readonly maxJsonValues: number;
  /** Messages of one connection that are read per second, on average; a client that sends more is read more slowly. */
  readonly maxMessagesPerSecond: number;
  /** Bytes of one connection's unanswered requests; beyond it nothing more is read, or what waits for a program is refused. */
  readonly maxRequestBytesInFlight: number;
  /** Largest answer; a request that needs more is refused, but `process/read` returns a part that fits. */
  readonly maxResponseBytes: number;
  /** Bytes waiting for a slow client before its processes are paused. */
  readonly outboundHighWaterBytes: number;
  /** Accept absolute native paths where the protocol asks for `file:` URIs. */
  readonly acceptNativePaths: boolean;
  /** Answer an unexpected notification with an error and keep the connection. */
  readonly lenientNotifications: boolean;
  /** Refuse `process/write` without a `writeId`. */
  readonly requireWriteId: boolean;
  /** Have capability discovery follow links that lead out of a root; otherwise they are left out with a warning. */
  readonly followDiscoveryLinks: boolean;
  /** Start programs through libc; off falls back to child_process, which has no terminals. */
  readonly nativeSpawn: boolean;
  /** Keep programs from reading the server's memory, and write no core file of it; debuggers cannot attach to it either. */
  readonly protectMemory: boolean;
  /** A JSON file with a `sandbox` object that holds for every request, also for those that ask for less or for none; empty for none. */
  readonly minSandbox: string;
  /** Memory of a program and what it starts; 0 is no limit. A client can ask for less. */
  readonly maxProcessMemoryBytes: number;
  /** Processes and threads of a program and what it starts, which needs control groups; 0 is no limit. */
  readonly maxProcessPids: number;
  /** Share of one processor for a program and what it starts, which needs control groups; 0 is no limit. */
  readonly maxProcessCpuPercent: number;
  /** How long a program may run; 0 is no limit. */
  readonly maxProcessWallMs: number;
  /** How long a program may go without output; 0 is no limit. */
  readonly maxProcessIdleMs: number;
  /** How much a program may write; 0 is no limit. */
  readonly maxProcessOutputBytes: number;
  /** Memory of all programs of a session together, which needs control groups; 0 is no limit. */
  readonly maxSessionMemoryBytes: number;
  /** Processes and threads of all programs of a session together, which needs control groups; 0 is no limit. */
  readonly maxSessionPids: number;
  /** Share of one processor for all programs of a session together, which needs control groups; 0 is no limit. */
  readonly maxSessionCpuPercent: number;
  /** Hosts that `http/request` may reach; every host when empty. */
  readonly httpAllowedHosts: string;
  /** Hosts that `http/request` may not reach. */
  readonly httpDeniedHosts: string;
  /** Let `http/request` reach addresses that are not public: this machine, its network, a cloud's metadata. */
  readonly httpPrivateAddresses: boolean;
  /** Bytes of bodies that one connection's `http/request`s hold at once; streamed ones hold next to nothing. */
  readonly maxHttpBodyBytes: number;
  /** A file to which connections, starts, exits, file changes and refusals are appended; empty for none. */
  readonly auditLog: string;
  /** Whether new work stops while the audit log cannot be written, or goes on unrecorded. */
  readonly auditOnError: AuditOnError;
  /** Have every line of the audit log reach the disk before the work it speaks of goes on. */
  readonly auditFsync: boolean;
  /** Trace requests with OpenTelemetry, and carry their traces on to programs and web servers. Spans need an SDK in the process. */
  readonly otel: boolean;
  /** Serve metrics for Prometheus at `/metrics`. */
  readonly metrics: boolean;
  /** Least severe log record written to stderr. */
  readonly logLevel: LogLevel;
}

/** What happens to new work while the audit log cannot be written. */
export type AuditOnError = 'stop' | 'continue';

/** How a websocket client shows that it may connect. */
export type WsAuth = 'none' | 'capability-token' | 'signed-bearer-token';

/** Severity of a log record, least severe first. */
export type LogLevel = 'debug' | 'info' | 'warn' | 'error';

/** What a server does when nothing is configured. */
export const DEFAULT_CONFIG: ExecServerConfig = Object.freeze({
  listen: 'ws://127.0.0.1:0',
  tlsCert: '',
  tlsKey: '',
  tlsClientCa: '',
  wsAuth: 'none',
  wsTokenFile: '',
  wsTokenSha256: '',
  wsSharedSecretFile: '',
  wsIssuer: '',
  wsAudience: '',
  wsMaxClockSkewSeconds: 30,
  closeOnTokenExpiry: false,
  revokedTokens: '',
  environmentId: '',
  insecureNoAuth: false,
  allowedHost: '',
  concurrentRequests: 128,
  maxConnections: 1024,
  maxConnectionsPerAddress: 256,
  handshakeTimeoutMs: 10_000,
  initializeTimeoutMs: 30_000,
  maxSessions: 2048,
  detachedSessionTtlMs: 30_000,
  closedProcessRetentionMs: DEFAULT_CLOSED_RETENTION_MS,
  maxProcessesPerConnection: DEFAULT_MAX_PROCESSES,
  maxProcesses: 4096,
  maxFileHandles: 4096,
  retainedOutputBytesPerProcess: DEFAULT_RETAINED_BYTES,
  retainedChunksPerProcess: DEFAULT_RETAINED_CHUNKS,
  snapshotHeadBytes: DEFAULT_HEAD_BYTES,
  shutdownGracePeriodMs: 2_000,
  allowDirectExec: true,
  allowPreparedExec: true,
  pingIntervalMs: 30_000,
  peerSilenceTimeoutMs: 300_000,
  maxMessageBytes: 64 * 1024 * 1024,
  maxJsonDepth: 127,
  maxJsonValues: 262_144,
  maxMessagesPerSecond: 250_000,
  maxRequestBytesInFlight: 128 * 1024 * 1024,
  maxResponseBytes: 1024 * 1024 * 1024,
  outboundHighWaterBytes: 1024 * 1024,
  acceptNativePaths: false,
  lenientNotifications: false,
  requireWriteId: false,
  followDiscoveryLinks: false,
  nativeSpawn: true,
  protectMemory: true,
  minSandbox: '',
  maxProcessMemoryBytes: 0,
  maxProcessPids: 0,
  maxProcessCpuPercent: 0,
  maxProcessWallMs: 0,
  maxProcessIdleMs: 0,
  maxProcessOutputBytes: 0,
  maxSessionMemoryBytes: 0,
  maxSessionPids: 0,
  maxSessionCpuPercent: 0,
  httpAllowedHosts: '',
  httpDeniedHosts: '',
  httpPrivateAddresses: true,
  maxHttpBodyBytes: 128 * 1024 * 1024,
  auditLog: '',
  auditOnError: 'stop',
  auditFsync: false,
  otel: false,
  metrics: false,
  logLevel: 'warn',
});

/** Where a server listens by default: on loopback, on a port that the system picks. */
export const DEFAULT_LISTEN_URL = DEFAULT_CONFIG.listen;
