/** Bytes of a request: the largest, a validation, has a key and an authorization, some 6 KB. */
export const MAX_BODY_BYTES = 16 * 1024;

/** How long a connection may take for its request, and to become a websocket: less than clients wait. */
export const REQUEST_TIMEOUT_MS = 5_000;

/**
 * How long an executor may come back with the URL it was given. It asks for another one by itself when that is over; until then it
 * needs nobody but the rendezvous.
 */
export const EXECUTOR_TICKET_MS = 7 * 24 * 60 * 60_000;

/** How long a harness has to open the URL it was given, and its authorization to arrive at the executor. */
export const HARNESS_TICKET_MS = 60_000;
export const AUTHORIZATION_MS = 60_000;

/** How long a node has an executor without saying so again. */
export const LEASE_MS = 90_000;

/**
 * How often it does, and with that how long harnesses may wait at a node that has not noticed that its executor has gone to another one.
 * The ends keep a stream for 25 seconds without each other: enough for this, for the two seconds until the dead socket is cut off, for one
 * question that the store leaves unanswered, and for the harness's way to the other node.
 */
export const LEASE_RENEWAL_MS = 10_000;

/** How soon it says so again when the store could not be reached. */
export const LEASE_RETRY_MS = 2_000;

/** Leases that are renewed at once, so that a store with little capacity answers others in between. */
export const LEASE_RENEWAL_BATCH = 64;

/** Registrations that a node without a shared store remembers; each has some 4 KB. Beyond, the one unused for longest is forgotten. */
export const MAX_ENVIRONMENTS = 10_000;

/** How long a shared store remembers a registration that nobody uses. */
export const REGISTRATION_MS = 30 * 24 * 60 * 60_000;

/** Replaced executors of an environment that are remembered, so that none of them takes it back. */
export const MAX_SUPERSEDED_KEYS = 32;

/** Authorizations that wait for their executor at a node without a shared store; each has some 300 bytes. */
export const MAX_AUTHORIZATIONS = 65_536;

/**
 * Requests of one kind in one environment within a time: many harnesses that come back at once pass, a loop without pauses does not.
 * It also bounds the authorizations in a shared store.
 */
export const REQUESTS_PER_PERIOD = 600;
export const REQUEST_PERIOD_MS = 10_000;

/** Counts of requests, three for an environment that makes all kinds of them; beyond, the one that began first is forgotten. */
export const MAX_REQUEST_COUNTS = 60_000;

/** Longest that the store may take: a request that waits for it must be answered before its client gives up. */
export const STORE_TIMEOUT_MS = 2_000;

/** Commands that wait for a store which does not answer; the next ones fail at once. */
export const STORE_QUEUE_COMMANDS = 10_000;

/** How soon a lost store is tried again, at most, and how long it may be silent before its connection counts as lost. */
export const STORE_RECONNECT_MS = 1_000;
export const STORE_SILENCE_MS = 10_000;

/** How often the log tells that a store which is there refuses questions, or leaves them unanswered. */
export const STORE_COMPLAINT_MS = 10_000;

/** Lines that are added to the registration file before it is written anew, without those that are out of date. */
export const REGISTRATION_FILE_APPENDED_LINES = 10_000;

/** Largest registration file that is read: what the environments need, with as much again out of date, and some more. */
export const MAX_REGISTRATION_FILE_BYTES = 256 * 1024 * 1024;

/** Pings, and when a silent peer is dropped: the numbers of the reference's clients. */
export const PING_INTERVAL_MS = 30_000;
export const PEER_SILENCE_MS = 60_000;

/** Connections at once, and from one address; executors behind one gateway share it. Fewer where the system allows few open files. */
export const DEFAULT_MAX_CONNECTIONS = 16_384;
export const MAX_CONNECTIONS_PER_ADDRESS = 4_096;

/** Harnesses of one environment: twice the streams that an executor takes, because some of them may be gone without its knowledge. */
export const MAX_HARNESSES_PER_ENVIRONMENT = 256;

/**
 * Streams of one environment, and of one of its harnesses: as above, and what an executor takes. So many that have lost their harness
 * are remembered besides.
 */
export const MAX_STREAMS_PER_ENVIRONMENT = 256;
export const MAX_STREAMS_PER_HARNESS = 128;

/** Longest name of a stream that is remembered. Those of all known harnesses have 36 characters. */
export const MAX_STREAM_ID_CHARS = 256;

/** Bytes that wait for one socket, one environment and all of them before their senders are no longer read. Each goes on at half of it. */
export const SOCKET_WINDOW_BYTES = 1024 * 1024;
export const ENVIRONMENT_WINDOW_BYTES = 8 * 1024 * 1024;
export const RELAY_WINDOW_BYTES = 256 * 1024 * 1024;

/**
 * How long a socket may hold up those of its environment before it is cut off; where they do so together, the one for which most
 * bytes wait. Executors drop a connection on which a ping has gone unanswered for 60 seconds.
 */
export const STALL_TIMEOUT_MS = 20_000;

/** How long closed sockets may take to be gone when the relay ends. Cutting off who does not answer a close takes two seconds. */
export const DRAIN_TIMEOUT_MS = 5_000;
