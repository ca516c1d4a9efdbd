import type { ExecServerConfig } from './config.ts';

/** A key of ExecServerConfig. */
export type ConfigKey = keyof ExecServerConfig;

/** Headings under which help and documentation list the options, in their order. */
export const OPTION_GROUPS = [
  'Connections',
  'Messages',
  'Sessions and processes',
  'Output',
  'Protocol',
  'Logging',
] as const;

/** What is said of one key: how its value is written, its bounds and what it means. */
export type OptionSpec = Described & (NumberSpec | BooleanSpec | EnumSpec<string> | TextSpec);

/** One row of the table with the names it goes by: TOML key, flag (with its dashes) and environment variable. */
export type ConfigOption = OptionSpec & {
  readonly key: ConfigKey;
  readonly flag: string;
  readonly env: string;
};

type Described = { readonly group: (typeof OPTION_GROUPS)[number]; readonly description: string };
type NumberSpec = {
  readonly type: 'integer' | 'duration' | 'bytes';
  readonly min: number;
  readonly max: number;
};
type BooleanSpec = { readonly type: 'boolean' };
type EnumSpec<T> = { readonly type: 'enum'; readonly values: readonly T[] };
type TextSpec = { readonly type: 'string'; readonly placeholder: string; readonly allowed: string };

/** The spec that a value type calls for, so that a number described as a boolean does not compile. */
type SpecFor<T> = Described &
  ([T] extends [number]
    ? NumberSpec
    : [T] extends [boolean]
      ? BooleanSpec
      : string extends T
        ? TextSpec
        : EnumSpec<T>);

const KIB = 1024;
const MIB = 1024 * KIB;
const GIB = 1024 * MIB;
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
    allowed: '`ws://IP:PORT`, `stdio` or `off`',
    description: 'Where to listen: `ws://IP:PORT` (port 0 picks a free one), `stdio`, or `off`.',
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
    description: 'Connections accepted at once; further ones are refused with 503.',
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
  nativeSpawn: {
    group: 'Sessions and processes',
    type: 'boolean',
    description: 'Start programs through libc; off falls back to child_process, which has no terminals.',
  },
  logLevel: {
    group: 'Logging',
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
