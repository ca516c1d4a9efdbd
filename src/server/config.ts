import {
  DEFAULT_CLOSED_RETENTION_MS,
  DEFAULT_HEAD_BYTES,
  DEFAULT_MAX_PROCESSES,
  DEFAULT_RETAINED_BYTES,
  DEFAULT_RETAINED_CHUNKS,
} from '../process/limits.ts';

/** Every limit and default of a server. One frozen object of this type configures everything below the listener. */
export interface ExecServerConfig {
  /** Where to listen: `ws://IP:PORT` (port 0 picks a free one), `stdio`, or `off`. */
  readonly listen: string;
  /** Requests of one connection that may run at once; control requests and long polls do not count. */
  readonly concurrentRequests: number;
  /** Connections accepted at once; further ones are refused with 503. */
  readonly maxConnections: number;
  /** How long a session outlives its connection. 0 ends its processes with the connection. */
  readonly detachedSessionTtlMs: number;
  /** How long a closed process stays readable and keeps its id. */
  readonly closedProcessRetentionMs: number;
  /** Processes of one session; closed ones make room for new ones. */
  readonly maxProcessesPerConnection: number;
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
  /** Bytes waiting for a slow client before its processes are paused. */
  readonly outboundHighWaterBytes: number;
  /** Accept absolute native paths where the protocol asks for `file:` URIs. */
  readonly acceptNativePaths: boolean;
  /** Answer an unexpected notification with an error and keep the connection. */
  readonly lenientNotifications: boolean;
  /** Refuse `process/write` without a `writeId`. */
  readonly requireWriteId: boolean;
  /** Start programs through libc; off falls back to child_process, which has no terminals. */
  readonly nativeSpawn: boolean;
  /** Least severe log record written to stderr. */
  readonly logLevel: LogLevel;
}

/** Severity of a log record, least severe first. */
export type LogLevel = 'debug' | 'info' | 'warn' | 'error';

/** What a server does when nothing is configured. */
export const DEFAULT_CONFIG: ExecServerConfig = Object.freeze({
  listen: 'ws://127.0.0.1:0',
  concurrentRequests: 128,
  maxConnections: 1024,
  detachedSessionTtlMs: 30_000,
  closedProcessRetentionMs: DEFAULT_CLOSED_RETENTION_MS,
  maxProcessesPerConnection: DEFAULT_MAX_PROCESSES,
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
  outboundHighWaterBytes: 1024 * 1024,
  acceptNativePaths: false,
  lenientNotifications: false,
  requireWriteId: false,
  nativeSpawn: true,
  logLevel: 'warn',
});
