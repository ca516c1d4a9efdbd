import type { OptionSpecs } from './option-spec.ts';
import { GIB, HOUR, KIB, MAX_COUNT, MIB, WEEK } from './units.ts';

/** The options of what clients are given: sessions, processes, output, messages, the protocol. */
export const SERVICE_SPECS = {
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
    min: 4 * KIB,
    max: GIB,
    description:
      'Largest answer; a request that needs more is refused, but `process/read` returns a part that fits.',
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
} satisfies Partial<OptionSpecs>;
