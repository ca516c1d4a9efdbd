import {
  DEFAULT_CLOSED_RETENTION_MS,
  DEFAULT_HEAD_BYTES,
  DEFAULT_MAX_PROCESSES,
  DEFAULT_RETAINED_BYTES,
  DEFAULT_RETAINED_CHUNKS,
} from '../../process/limits.ts';
import { FILE, GIB, HOUR, KIB, MAX_COUNT, MIB, type Setting, WEEK } from './setting.ts';

/** Settings of what a client gets: sessions, processes, output, messages and the protocol. */
export const SESSION_SETTINGS = {
  maxSessions: {
    group: 'Sessions and processes',
    type: 'integer',
    default: 2048,
    min: 1,
    max: MAX_COUNT,
    description:
      'Sessions kept at the same time, attached or detached. At the limit an idle detached session is evicted, of the same client or of one above its share, else a new session is refused. With signed tokens one token cannot have all of them.',
  },
  detachedSessionTtlMs: {
    group: 'Sessions and processes',
    type: 'duration',
    default: 30_000,
    min: 0,
    max: WEEK,
    none: true,
    description:
      'How long a session outlives its connection, unless its client asks for another time. 0 ends its processes with the connection; `none` keeps the session until the server ends.',
  },
  maxDetachedSessionTtlMs: {
    group: 'Sessions and processes',
    type: 'duration',
    default: 24 * HOUR,
    min: 0,
    max: WEEK,
    none: true,
    description:
      'The longest such time that a client may ask for. `detachedSessionTtlMs` is allowed even if it is longer; if that is 0, nothing else is.',
  },
  closedProcessRetentionMs: {
    group: 'Sessions and processes',
    type: 'duration',
    default: DEFAULT_CLOSED_RETENTION_MS,
    min: 0,
    max: WEEK,
    description:
      'How long a closed process stays readable and keeps its id. Time without a connection does not count: a client that resumes the session has all of it, within `maxDetachedOutputBytesPerSession` and the limits after it.',
  },
  maxProcessesPerConnection: {
    group: 'Sessions and processes',
    type: 'integer',
    default: DEFAULT_MAX_PROCESSES,
    min: 1,
    max: MAX_COUNT,
    description:
      'Processes per session, and detached processes per owner. At the limit a new process evicts a closed one.',
  },
  maxProcesses: {
    group: 'Sessions and processes',
    type: 'integer',
    default: 4096,
    min: 1,
    max: MAX_COUNT,
    description: 'Running processes of all sessions. Lowered when the limit on open files is low.',
  },
  maxFileHandles: {
    group: 'Sessions and processes',
    type: 'integer',
    default: 4096,
    min: 1,
    max: MAX_COUNT,
    description: 'Open file handles of all clients. Lowered when the limit on open files is low.',
  },
  retainedOutputBytesPerProcess: {
    group: 'Output',
    type: 'bytes',
    default: DEFAULT_RETAINED_BYTES,
    min: 1,
    max: GIB,
    description:
      'Last bytes of each output stream of a process, kept for `process/read` and `process/snapshot`.',
  },
  retainedChunksPerProcess: {
    group: 'Output',
    type: 'integer',
    default: DEFAULT_RETAINED_CHUNKS,
    min: 1,
    max: MAX_COUNT,
    description: 'Last chunks of each output stream of a process, kept for `process/read`.',
  },
  snapshotHeadBytes: {
    group: 'Output',
    type: 'bytes',
    default: DEFAULT_HEAD_BYTES,
    min: 0,
    max: GIB,
    description: 'First bytes of each output stream of a process, always kept for `process/snapshot`.',
  },
  maxDetachedOutputBytesPerSession: {
    group: 'Output',
    type: 'bytes',
    default: 64 * MIB,
    min: 0,
    max: 64 * GIB,
    description:
      'Memory of closed processes that a session keeps longer than `closedProcessRetentionMs` after they closed: output, 16 bytes per chunk, write ids and 10 KiB per process. The oldest process is dropped first.',
  },
  maxDetachedOutputBytes: {
    group: 'Output',
    type: 'bytes',
    default: 512 * MIB,
    min: 0,
    max: 1024 * GIB,
    description:
      'The same limit for all sessions together. The client that keeps the most loses its oldest process first.',
  },
  maxDetachedProcesses: {
    group: 'Output',
    type: 'integer',
    default: 16_384,
    min: 0,
    max: MAX_COUNT,
    description:
      'Closed processes that all sessions keep longer than `closedProcessRetentionMs` after they closed. One session keeps at most `maxProcessesPerConnection`.',
  },
  maxDetachedRetentionMs: {
    group: 'Output',
    type: 'duration',
    default: 24 * HOUR,
    min: 0,
    max: WEEK,
    description:
      'How long the output of a detached process (`lifetime`) may stay readable after it has closed. A request asks for 1 h unless it says otherwise. The three limits above apply too.',
  },
  recordDir: {
    group: 'Recordings',
    ...FILE,
    placeholder: 'DIR',
    allowed: 'the path of a directory',
    description:
      'Record all programs into this directory, which only the user of the server may open. By default only those are recorded whose client asks for it (`record`), in exec-server/recordings of the state directory ($XDG_STATE_HOME, else ~/.local/state).',
  },
  maxRecordingBytes: {
    group: 'Recordings',
    type: 'bytes',
    default: 64 * MIB,
    min: 16 * KIB,
    max: 64 * GIB,
    description: 'Largest recording of one program. A marker says that it stopped there.',
  },
  maxRecordingsBytes: {
    group: 'Recordings',
    type: 'bytes',
    default: GIB,
    min: 0,
    max: 1024 * GIB,
    description:
      'What all recordings may take. The owner that has most loses its oldest first. 0 switches recordings off.',
  },
  recordingRetentionMs: {
    group: 'Recordings',
    type: 'duration',
    default: 4 * WEEK,
    min: 0,
    max: 520 * WEEK,
    none: true,
    description: 'How long a recording is kept after its program has ended. `none` keeps it.',
  },
  idleTimeoutMs: {
    group: 'Sessions and processes',
    type: 'duration',
    default: Number.POSITIVE_INFINITY,
    min: 10,
    max: WEEK,
    none: true,
    description:
      'End a server with a listener after this long without a connection, a session and a process whose output is kept. `none` keeps it.',
  },
  shutdownGracePeriodMs: {
    group: 'Sessions and processes',
    type: 'duration',
    default: 2_000,
    min: 0,
    max: HOUR,
    description: 'Time between SIGTERM and SIGKILL for programs when the server shuts down.',
  },
  drainTimeoutMs: {
    group: 'Sessions and processes',
    type: 'duration',
    default: 600_000,
    min: 0,
    max: WEEK,
    none: true,
    description:
      'How long a server that drains (`exec-server drain`, SIGUSR2) waits for its programs. Then it shuts down.',
  },
  allowDirectExec: {
    group: 'Sessions and processes',
    type: 'boolean',
    default: true,
    description: 'Allow `process/start` with plain parameters or the `direct` form.',
  },
  allowPreparedExec: {
    group: 'Sessions and processes',
    type: 'boolean',
    default: true,
    description: 'Allow `process/start` with the `prepared` form.',
  },
  pingIntervalMs: {
    group: 'Connections',
    type: 'duration',
    default: 30_000,
    min: 10,
    max: WEEK,
    description: 'Interval of websocket pings.',
  },
  peerSilenceTimeoutMs: {
    group: 'Connections',
    type: 'duration',
    default: 300_000,
    min: 10,
    max: WEEK,
    description: 'Close a websocket from which nothing arrives for this long, not even a pong.',
  },
  maxMessageBytes: {
    group: 'Messages',
    type: 'bytes',
    default: 64 * MIB,
    min: KIB,
    max: 256 * MIB,
    description: 'Largest incoming message. A request has at most 4 MiB besides its base64 parameter.',
  },
  maxUnfinishedBytes: {
    group: 'Messages',
    type: 'bytes',
    default: 512 * MIB,
    min: KIB,
    max: 16 * GIB,
    description:
      'Bytes of incoming messages that are not complete yet, over all connections. Beyond that the connection with the oldest of them closes with 1013. Never less than `maxMessageBytes`.',
  },
  maxJsonDepth: {
    group: 'Messages',
    type: 'integer',
    default: 127,
    min: 4,
    max: 1_000,
    description: 'Deepest nesting of an incoming message, including the root object.',
  },
  maxJsonValues: {
    group: 'Messages',
    type: 'integer',
    default: 262_144,
    min: 16,
    max: MAX_COUNT,
    description: 'JSON values allowed in one incoming message.',
  },
  maxMessagesPerSecond: {
    group: 'Messages',
    type: 'integer',
    default: 250_000,
    min: 1,
    max: MAX_COUNT,
    description:
      'Average number of messages read per second from one connection. A client that sends more is read more slowly.',
  },
  maxRequestBytesInFlight: {
    group: 'Messages',
    type: 'bytes',
    default: 128 * MIB,
    min: KIB,
    max: 4 * GIB,
    description:
      "Bytes of one connection's unanswered requests. At the limit the server stops reading, or refuses requests that wait for a program.",
  },
  maxResponseBytes: {
    group: 'Messages',
    type: 'bytes',
    default: GIB,
    min: 4 * KIB,
    max: GIB,
    description:
      'Largest response. A request that needs more is refused; `process/read` returns the part that fits.',
  },
  outboundHighWaterBytes: {
    group: 'Messages',
    type: 'bytes',
    default: MIB,
    min: KIB,
    max: GIB,
    description: "Bytes queued for a slow client before the server pauses its processes' output.",
  },
  acceptNativePaths: {
    group: 'Protocol',
    type: 'boolean',
    default: false,
    description:
      'Accept absolute native paths where the protocol expects `file:` URIs, except in sandbox policies. Results contain URIs.',
  },
  lenientNotifications: {
    group: 'Protocol',
    type: 'boolean',
    default: false,
    description: 'Answer an unexpected notification with an error instead of closing the connection.',
  },
  requireWriteId: {
    group: 'Protocol',
    type: 'boolean',
    default: false,
    description: 'Refuse `process/write` without a `writeId`.',
  },
  followDiscoveryLinks: {
    group: 'Protocol',
    type: 'boolean',
    default: false,
    description:
      'Let capability discovery follow links that lead out of a root. By default it skips them with a warning.',
  },
  nativeSpawn: {
    group: 'Sessions and processes',
    type: 'boolean',
    default: true,
    description:
      'Start programs through libc. When off, the server uses child_process, which has no terminals.',
  },
  fastPaths: {
    group: 'Sessions and processes',
    type: 'boolean',
    default: true,
    description:
      'Use busy polling, cached file calls, file threads and pre-built sandboxes. When off, everything works, but slower.',
  },
  protectMemory: {
    group: 'Sessions and processes',
    type: 'boolean',
    default: true,
    description:
      "Keep programs from reading the server's memory, and write no core file. Debuggers cannot attach either.",
  },
} as const satisfies Record<string, Setting>;
