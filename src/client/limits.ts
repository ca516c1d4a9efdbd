/** The longest time that timers can be set to, 24 days; a longer one would be over at once. Who asks for more waits without end. */
export const MAX_TIMER_MS = 2 ** 31 - 1;

/** How long opening a connection may take, TLS and the websocket handshake included. */
export const CONNECT_TIMEOUT_MS = 10_000;

/** How long `initialize` may take. */
export const INITIALIZE_TIMEOUT_MS = 10_000;

/** How long `environment/info` may take. */
export const INFO_TIMEOUT_MS = 30_000;

/** How long `environment/status` may take: it is a sign of life, so a late answer is no answer. */
export const STATUS_TIMEOUT_MS = 10_000;

/** How long a lost connection is looked for. Servers keep a session for 30 s; what comes later finds nothing. */
export const RECOVERY_WINDOW_MS = 25_000;

/** Interval of pings, and how long a server may stay silent all the same. */
export const PING_INTERVAL_MS = 30_000;
export const PEER_SILENCE_TIMEOUT_MS = 60_000;

/** Delays between attempts to reconnect: doubled from the first to the second, each shortened at random by up to a half. */
export const RECONNECT_FIRST_DELAY_MS = 50;
export const RECONNECT_MAX_DELAY_MS = 1_000;

/** A connection that lasted this long was a good one, even if nothing was asked on it: the next is opened without delay. */
export const GOOD_CONNECTION_MS = 250;

/** Connections in a row that a server may spoil with nonsense before it is given up. */
export const MAX_PROTOCOL_ERRORS = 5;

/** Times that one call is sent again after the server spoilt the connection soon after: its answer may be the nonsense. */
export const MAX_RETRIES_AFTER_PROTOCOL_ERROR = 1;

/**
 * Times that one call is sent again after it was lost soon after it was sent: a call that ends every connection would go on for
 * ever. One that was lost later was not the cause, and does not count.
 */
export const MAX_RETRIES = 8;
export const EARLY_LOSS_MS = 5_000;

/** Processes caught up with at once after a reconnect; few enough to share a signal without a warning from Node. */
export const CATCH_UP_CONCURRENCY = 4;

/**
 * Largest message from a server: nearly the longest string of the engine, because whole files come in one message. What a
 * message may cost beyond its size is bounded by its values: enough for a megabyte of output in pieces of one byte, which is what a
 * server may retain of a process.
 */
export const MAX_MESSAGE_BYTES = 2 ** 29 - 1024;
export const MAX_JSON_DEPTH = 127;
export const MAX_JSON_VALUES = 2 ** 23;

/** Events of one process that wait for an earlier one; beyond it they are read from the server. */
export const REORDER_MAX_EVENTS = 256;
export const REORDER_MAX_BYTES = 1024 * 1024;

/** How long an earlier event may be missing before it is read from the server. Connections keep the order, so it rarely comes. */
export const MISSING_EVENT_DELAY_MS = 200;

/** Times that a slow reader's question is refused before what it asks for is given up, after pauses of 25 s in all. */
export const MAX_REFUSED_READS = 6;

/**
 * How long a process may be quiet before the server is asked whether an event got lost behind the last one: less when it has exited
 * and only the end is to come. Each further question waits twice as long, up to what is safely below the 30 s for which servers
 * remember a process that is closed.
 */
export const QUIET_CHECK_FIRST_MS = 5_000;
export const END_CHECK_FIRST_MS = 1_000;
export const QUIET_CHECK_MAX_MS = 20_000;

/** Pages that are read in a row to catch up with a process; one that writes faster than it is read is left to its notifications. */
export const CATCH_UP_PAGES = 1_000;

/** Times that a snapshot is asked for to learn how much output is lost; a program that goes on writing makes it miss. */
export const GAP_SIZE_ATTEMPTS = 3;

/**
 * Events of one process kept for late and slow readers. As many as one read from a socket can bring, so that a reader that keeps
 * up never has to ask the server.
 */
export const LOG_MAX_EVENTS = 4096;
export const LOG_MAX_BYTES = 1024 * 1024;

/**
 * Writes to one process without an answer; a server answers no faster than the program reads. Few of the 1024 calls that may be
 * unanswered on a connection, so that one program that does not read takes no place from the others.
 */
export const MAX_UNANSWERED_WRITES = 256;

/** Input of a program is sent in pieces of this size, so that no message grows large. */
export const INPUT_CHUNK_BYTES = 256 * 1024;

/** Output that `run` keeps of each stream. */
export const RUN_MAX_OUTPUT_BYTES = 64 * 1024 * 1024;

/** How long `run` waits for the end of a program that it ended because its time was up. */
export const RUN_END_TIMEOUT_MS = 5_000;

/** Bytes of a file that one request carries: what servers allow at most. */
export const FILE_BLOCK_BYTES = 1024 * 1024;

/** Largest piece of a streamed body in one message; a longer one breaks the protocol. */
export const MAX_BODY_DELTA_BYTES = 1024 * 1024;

/** Bytes of one streamed body that may be under way to a consumer, where the server can be told. */
export const BODY_WINDOW_BYTES = 512 * 1024;

/** Bytes of all streamed bodies that wait for their consumers; the one that exceeds it fails. */
export const BODY_QUEUES_MAX_BYTES = 64 * 1024 * 1024;

/** Pieces of one body that wait; beyond it they are joined, because small ones cost more than their bytes. */
export const BODY_QUEUE_MAX_PIECES = 256;

/** Questions about the network that handlers work on at a time, as many as servers ask; what would be the next one is denied. */
export const MAX_POLICY_REQUESTS = 256;

/** Changes of a watch that wait for their consumer, about 10 MB; beyond it the consumer has to look for itself. */
export const WATCH_QUEUE_CHANGES = 50_000;
