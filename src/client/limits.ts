/** Longest delay of a timer, 24 days: Node fires longer ones immediately. A longer timeout means no timeout. */
export const MAX_TIMER_MS = 2 ** 31 - 1;

/** Timeout of opening a connection, including TLS and the websocket handshake. */
export const CONNECT_TIMEOUT_MS = 10_000;

/** Timeout of `initialize`. */
export const INITIALIZE_TIMEOUT_MS = 10_000;

/** How long `close` waits for the end of programs whose start was given up. */
export const END_UNWANTED_MS = 2_000;

/** Timeout of `environment/info`. */
export const INFO_TIMEOUT_MS = 30_000;

/** Timeout of `environment/status`. It is a liveness probe, so a late answer counts as none. */
export const STATUS_TIMEOUT_MS = 10_000;

/**
 * How long the client tries to restore a lost connection. Servers keep a session for 30 s, so later attempts fail.
 */
export const RECOVERY_WINDOW_MS = 25_000;

/** The protocol's number for a detached session without a TTL. */
export const UNLIMITED_TTL = -1;

/** Interval of websocket pings, and how long the server may send nothing before the connection counts as lost. */
export const PING_INTERVAL_MS = 30_000;
export const PEER_SILENCE_TIMEOUT_MS = 60_000;

/**
 * Delays between reconnect attempts: they double from the first to the maximum. Each is shortened at random by up
 * to a half.
 */
export const RECONNECT_FIRST_DELAY_MS = 50;
export const RECONNECT_MAX_DELAY_MS = 1_000;

/**
 * A connection that lasted this long counts as working, even without calls. The client replaces it without delay.
 */
export const GOOD_CONNECTION_MS = 250;

/** Consecutive connections that may end with an invalid message before the client gives up. */
export const MAX_PROTOCOL_ERRORS = 5;

/**
 * Retries of one call after invalid messages from the server: the answer to this call may be the invalid message.
 */
export const MAX_RETRIES_AFTER_PROTOCOL_ERROR = 1;

/**
 * Retries of one call whose connection was lost within `EARLY_LOSS_MS` after sending. The call may be the cause,
 * and unlimited retries would never end. A call that was lost later is not the cause and does not count.
 */
export const MAX_RETRIES = 8;
export const EARLY_LOSS_MS = 5_000;

/**
 * Processes to catch up with concurrently after a reconnect. They share one signal; Node warns above ten listeners.
 */
export const CATCH_UP_CONCURRENCY = 4;

/**
 * Limits of a message from the server. The size is nearly the longest string of V8, because a whole file comes in
 * one message. The number of values bounds the parsing cost: it suffices for 1 MB of output in one-byte chunks,
 * which a server may retain per process.
 */
export const MAX_MESSAGE_BYTES = 2 ** 29 - 1024;
export const MAX_JSON_DEPTH = 127;
export const MAX_JSON_VALUES = 2 ** 23;

/** Events of one process that wait for an earlier one. Beyond that the client reads them from the server. */
export const REORDER_MAX_EVENTS = 256;
export const REORDER_MAX_BYTES = 1024 * 1024;

/**
 * How long the client waits for a missing event before it reads it from the server. Connections keep the order, so
 * this is rare.
 */
export const MISSING_EVENT_DELAY_MS = 200;

/** Refused reads after which a slow reader gives up; the pauses add up to 25 s. */
export const MAX_REFUSED_READS = 6;

/**
 * How long a process may be silent before the client asks whether its last event was lost. The delay is shorter
 * after the exit, when only the end is missing. It doubles up to a maximum that stays below 30 s, the time for
 * which servers retain a closed process.
 */
export const QUIET_CHECK_FIRST_MS = 5_000;
export const END_CHECK_FIRST_MS = 1_000;
export const QUIET_CHECK_MAX_MS = 20_000;

/** Pages of a list of processes. A page has hundreds of them, and servers have at most thousands. */
export const LIST_MAX_PAGES = 1_000;

/** Pages read in a row to catch up with a process. A process that writes faster continues by notifications. */
export const CATCH_UP_PAGES = 1_000;

/**
 * Events of one process kept for late and slow readers. One read from a socket can bring this many, so a reader
 * that keeps up never needs the server.
 */
export const LOG_MAX_EVENTS = 4096;
export const LOG_MAX_BYTES = 1024 * 1024;

/**
 * Flow-control window of a process, on servers that support it: what its slowest reader may be behind before the program waits. A fast
 * reader gets at least three quarters of it in one round trip.
 */
export const PROCESS_WINDOW_BYTES = 4 * 1024 * 1024;

/** The window of a process whose output the server holds: the largest that servers allow then. */
export const HELD_WINDOW_BYTES = 1024 * 1024;

/** How often a reader reports in each window. Servers need two reports at least. */
export const REPORTS_PER_WINDOW = 4;

/**
 * What is kept for a reader that is behind, in windows. Beside the window it can be what the server retained while the connection was lost,
 * and another window after that.
 */
export const UNREAD_WINDOWS = 3;

/**
 * Unanswered writes per process; a server answers only as fast as the program reads. It is a fraction of the 1024
 * unanswered calls of a connection, so one program that does not read cannot block the others.
 */
export const MAX_UNANSWERED_WRITES = 256;

/** Size of the chunks in which the client sends a program's input, to keep messages small. */
export const INPUT_CHUNK_BYTES = 256 * 1024;

/** Bytes of each output stream that `run` keeps. */
export const RUN_MAX_OUTPUT_BYTES = 64 * 1024 * 1024;

/** How long `run` waits for a program to end after it terminated the program because of a timeout. */
export const RUN_END_TIMEOUT_MS = 5_000;

/** Bytes of a file per request: the maximum that servers allow. */
export const FILE_BLOCK_BYTES = 1024 * 1024;

/** Blocks of one file that are requested or sent before the first is answered: 80 MB/s with a round trip of 50 ms. */
export const FILE_BLOCKS_IN_FLIGHT = 4;

/** Largest chunk of a streamed body. A longer one violates the protocol. */
export const MAX_BODY_DELTA_BYTES = 1024 * 1024;

/** Flow-control window of one streamed body, on servers that support it. */
export const BODY_WINDOW_BYTES = 512 * 1024;

/** Bytes of all streamed bodies that wait for their readers. The body that exceeds it fails. */
export const BODY_QUEUES_MAX_BYTES = 64 * 1024 * 1024;

/**
 * Chunks of one body that wait. Beyond that the client joins them, because small chunks cost more than their bytes.
 */
export const BODY_QUEUE_MAX_CHUNKS = 256;

/** TCP streams of one client, as many as servers open for one connection. */
export const MAX_TCP_STREAMS = 512;

/**
 * Flow-control window of a TCP stream. All windows together have TCP_WINDOWS_BYTES while few streams are open. Each further stream gets a
 * smaller window, so that 512 streams whose readers all stall hold about 120 MiB.
 */
export const TCP_WINDOW_BYTES = 1024 * 1024;
export const TCP_MIN_WINDOW_BYTES = 64 * 1024;
export const TCP_WINDOWS_BYTES = 32 * 1024 * 1024;

/** Largest chunk of a TCP stream. A longer one violates the protocol. */
export const MAX_TCP_CHUNK_BYTES = 1024 * 1024;

/** Chunks of one TCP stream that wait. Beyond that the client joins them. */
export const TCP_QUEUE_MAX_CHUNKS = 256;

/**
 * Bytes that one `tcp/data` carries. Every stream may have one small write unanswered. Larger and further writes need one of
 * TCP_LARGE_WRITES permits, which all streams share. So 512 streams to peers that do not read leave calls and bytes for others: a
 * connection has 1024 calls, and a server holds 128 MiB of requests.
 */
export const TCP_SMALL_WRITE_BYTES = 64 * 1024;
export const TCP_LARGE_WRITE_BYTES = 256 * 1024;
export const TCP_LARGE_WRITES = 32;
export const TCP_UNANSWERED_WRITES = 4;

/** How often a forwarded port opens a stream again whose connection to the server was lost meanwhile. */
export const FORWARD_ATTEMPTS = 4;

/**
 * How long a connection to a forwarded port may wait for its stream, also while the connection to the server is being restored. Programs
 * rarely wait longer for a connection.
 */
export const FORWARD_TIMEOUT_MS = 30_000;

/** Policy requests that handlers work on concurrently, as many as servers send. The next one is denied. */
export const MAX_POLICY_REQUESTS = 256;

/** Longest host and longest reason in a decision about the network, as servers send them. */
export const MAX_HOST_CHARACTERS = 253;
export const MAX_REASON_CHARACTERS = 1024;

/** Changes of a watch that wait for the consumer, about 10 MB. Beyond that the consumer gets an overflow. */
export const WATCH_QUEUE_CHANGES = 50_000;

/** Largest content that is written with one request. Servers accept messages of 64 MiB, and base64 adds a third. */
export const WRITE_WHOLE_MAX_BYTES = 16 * 1024 * 1024;

/** Paths of one request for listings: what servers allow. */
export const LISTS_PER_CALL = 1_000;

/** Bytes that a transfer hashes before the event loop reads more of them: as many as one read of a socket yields. */
export const HASH_TURN_BYTES = 64 * 1024;

/** Files of one request for hashes, and the characters of their paths: servers allow 1,000, and 4 MiB for the whole request. */
export const HASHES_PER_CALL = 1_000;
export const HASH_PATHS_MAX_LENGTH = 2 * 1024 * 1024;

/** Limits of one walk: the maximum that servers allow. */
export const WALK_MAX_DEPTH = 64;
export const WALK_MAX_DIRECTORIES = 10_000;
export const WALK_MAX_ENTRIES = 50_000;

/**
 * Files, links and directories that a transfer works on at a time, so that many small files do not wait for a round trip each. Those
 * of up to the size are in memory as a whole. Servers allow 128 handles per connection.
 */
export const TRANSFER_CONCURRENCY = 32;
export const TRANSFER_WHOLE_BYTES = 256 * 1024;

/** Larger files that a transfer works on at a time. Each has several blocks in memory. */
export const TRANSFER_LARGE_FILES = 4;

/** From this size on, what an interrupted transfer has sent of a file is kept and continued. */
export const RESUME_MIN_BYTES = 8 * 1024 * 1024;

/** How long the part of a file on this machine is kept after the last write. Servers keep theirs as long. */
export const PART_MAX_IDLE_MS = 7 * 24 * 60 * 60 * 1000;

/**
 * When the temporary file of a small file on this machine is old. Its process looks dead, but may live in another container that shares
 * the directory.
 */
export const TEMPORARY_MAX_IDLE_MS = 60_000;

/** How often one directory is searched for old temporary files, and for how many directories the time is kept. */
export const SWEEP_INTERVAL_MS = 10_000;
export const SWEEP_CACHE_DIRECTORIES = 1_024;

/** How often one file of a transfer is started again after a lost connection. */
export const TRANSFER_RETRIES = 3;

/** Paths that the result or the error of a transfer names, in each of its lists. Their numbers are exact. */
export const TRANSFER_LISTED_PATHS = 10_000;

/**
 * Pings where a person types, and of forwarded ports. After sleep or a network loss they detect a dead connection within 15 s instead of a
 * minute. ssh connections have the same limits.
 */
export const FREQUENT_PINGS = { pingIntervalMs: 5_000, pongTimeoutMs: 15_000 } as const;
