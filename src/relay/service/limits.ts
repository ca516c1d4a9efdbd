/** Largest request body. A validation has a key and an authorization, about 6 KB. */
export const MAX_BODY_BYTES = 16 * 1024;

/** Time for a connection to send its request or to become a websocket. Shorter than the timeouts of clients. */
export const REQUEST_TIMEOUT_MS = 5_000;

/** Validity of an executor's URL. Until it expires, the executor reconnects without the registry; then it registers again. */
export const EXECUTOR_TICKET_MS = 7 * 24 * 60 * 60_000;

/** Time for a harness to open its URL, and for its authorization to reach the executor. */
export const HARNESS_TICKET_MS = 60_000;
export const AUTHORIZATION_MS = 60_000;

/** Duration of a lease without renewal. */
export const LEASE_MS = 90_000;

/**
 * Interval of lease renewals. It also bounds how long harnesses wait at a node that has not noticed that its executor moved to another
 * node. Peers keep a disconnected stream for 25 s. That covers this interval, two seconds to drop the dead socket, one store request
 * without an answer, and the harness's connection to the other node.
 */
export const LEASE_RENEWAL_MS = 10_000;

/** Delay before renewal is retried when the store was unreachable. */
export const LEASE_RETRY_MS = 2_000;

/** Leases renewed in parallel. A slow store can answer other requests between batches. */
export const LEASE_RENEWAL_BATCH = 64;

/** Registrations of a node without a shared store, about 4 KB each. Above it, the one unused longest is evicted. */
export const MAX_ENVIRONMENTS = 10_000;

/** Time that a shared store keeps an unused registration. */
export const REGISTRATION_MS = 30 * 24 * 60 * 60_000;

/** Replaced executors kept per environment, so that none of them can register again. */
export const MAX_SUPERSEDED_KEYS = 32;

/**
 * Pending authorizations at a node without a shared store, about 300 bytes each: in total, and of one environment, four for each of its
 * harnesses. Above it, the oldest of the environment is dropped. If all together exceed the total, the environment with the most loses
 * its oldest.
 */
export const MAX_AUTHORIZATIONS = 65_536;
export const MAX_AUTHORIZATIONS_PER_ENVIRONMENT = 1_024;

/**
 * Requests per call and environment within a period, and websockets per role and environment. Allows many harnesses to reconnect
 * together, but stops a tight request loop. Also bounds the authorizations in a shared store, and the commands that wait for it.
 */
export const REQUESTS_PER_PERIOD = 600;
export const REQUEST_PERIOD_MS = 10_000;

/** Request counters, up to five per environment. Above it, the oldest is evicted. */
export const MAX_REQUEST_COUNTS = 60_000;

/** Timeout of the store. Shorter than the timeouts of clients, whose requests wait for the store. */
export const STORE_TIMEOUT_MS = 2_000;

/** Queued commands for a store that does not answer. Further commands fail immediately. */
export const STORE_QUEUE_COMMANDS = 10_000;

/** Longest reconnect delay of the store, and the silence after which its connection counts as lost. */
export const STORE_RECONNECT_MS = 1_000;
export const STORE_SILENCE_MS = 10_000;

/** Shortest interval between log lines about failed commands of a connected store. */
export const STORE_ERROR_LOG_INTERVAL_MS = 10_000;

/** Lines appended to the registration file before it is rewritten without the outdated ones. */
export const REGISTRATION_FILE_APPENDED_LINES = 10_000;

/** Largest registration file: all environments, as many outdated lines, and a margin. */
export const MAX_REGISTRATION_FILE_BYTES = 256 * 1024 * 1024;

/** Ping interval, and the silence after which a peer is dropped: the values of the reference's clients. */
export const PING_INTERVAL_MS = 30_000;
export const PEER_SILENCE_MS = 60_000;

/** Connections in total and per address, which executors behind one gateway share. A low limit on open files reduces them. */
export const DEFAULT_MAX_CONNECTIONS = 16_384;
export const MAX_CONNECTIONS_PER_ADDRESS = 4_096;

/** Harnesses per environment: twice the streams of an executor, because some may have disconnected without its knowledge. */
export const MAX_HARNESSES_PER_ENVIRONMENT = 256;

/**
 * Websockets of an environment: its executor and harnesses, and as many that are being closed, because a newer executor has taken over.
 * A relay with few connections allows an environment at most half of them.
 */
export const MAX_SOCKETS_PER_ENVIRONMENT = 2 * (1 + MAX_HARNESSES_PER_ENVIRONMENT);

/**
 * Streams per environment (as above) and per harness (as many as an executor accepts). As many streams of disconnected harnesses are
 * kept in addition.
 */
export const MAX_STREAMS_PER_ENVIRONMENT = 256;
export const MAX_STREAMS_PER_HARNESS = 128;

/** Longest stream id. The ids of all known harnesses have 36 characters. */
export const MAX_STREAM_ID_CHARS = 256;

/**
 * Bytes of frames that have begun to arrive and are not complete, at a node: for each of 256 connections a frame of the largest size.
 * Frames arrive within milliseconds; connections that hold back the end of a frame cannot take the memory. Above it, the environment
 * with the most loses the connection of its oldest.
 */
export const MAX_UNFINISHED_BYTES = 64 * 1024 * 1024;

/**
 * Queued bytes per socket, per environment and in total, above which reading from the senders pauses. It resumes at half. While the
 * total is exceeded, only environments with more than their share are paused: half of the total, divided by the connected executors. So
 * an environment whose peers read is never paused because of others, and all together exceed the total by half at most.
 */
export const SOCKET_WINDOW_BYTES = 1024 * 1024;
export const ENVIRONMENT_WINDOW_BYTES = 8 * 1024 * 1024;
export const RELAY_WINDOW_BYTES = 256 * 1024 * 1024;

/**
 * Time that a socket may block the others of its environment before it is disconnected. If several block together, the one with the
 * most queued bytes is. Shorter than 60 s, after which executors drop a connection without an answer to a ping.
 */
export const STALL_TIMEOUT_MS = 20_000;

/** Time for sockets to close when the relay shuts down. Dropping a peer that does not answer a close takes two seconds. */
export const DRAIN_TIMEOUT_MS = 5_000;
