/**
 * Bytes that the HTTP parser gets of the connections of one address in one turn. A request for a websocket has a few hundred bytes, with
 * a token up to two thousand. Eighty of the shortest possible requests fit; answering them takes two or three milliseconds.
 */
export const REQUEST_TURN_BYTES = 2_048;

/**
 * Requests of a connection without an answer after which no further ones are taken. Clients send one after the other. A listener may close
 * connections that have fewer.
 */
export const MAX_UNANSWERED_REQUESTS = 20;

/** Addresses whose credit is kept; about 100 bytes each. Beyond that the address that connected longest ago starts afresh. */
export const MAX_REQUEST_CREDITS = 4_096;

/**
 * Slots kept for new clients, whose connections are not websockets yet. A client needs such a slot for a few milliseconds, so this
 * many serve thousands of new clients per second.
 */
export const SLOTS_FOR_NEW_CLIENTS = 128;

/**
 * Descriptors that a service keeps for itself: event loop, threads, logs and open files (22 with one client), and a margin for the
 * moments in which it starts a program.
 */
export const RESERVED_DESCRIPTORS = 40;

/** A request's timer that fires this much late shows that the process did not run meanwhile. A busy event loop stays below it. */
export const LATE_TIMER_MS = 100;

/** Longest path of a Unix socket: `sun_path` of `sockaddr_un` has 108 bytes with the final NUL (unix(7)). */
export const MAX_UNIX_PATH_BYTES = 107;

/** Connections of a metrics listener: a few scrapers and probes at a time. The oldest one is closed for a new one. */
export const MAX_METRICS_SOCKETS = 8;

/** How long a scraper may take to send its request. */
export const METRICS_REQUEST_TIMEOUT_MS = 10_000;

/** Largest revocation list: a few hundred thousand token ids. */
export const MAX_REVOCATION_FILE_BYTES = 4 * 1024 * 1024;

/** Delay of the first refusal to an address: not noticeable to a user who mistyped a token. */
export const AUTH_FAILURE_FIRST_DELAY_MS = 50;

/** Longest delay of a refusal. The refusal occupies a connection and must end before the handshake timeout. */
export const AUTH_FAILURE_MAX_DELAY_MS = 5_000;

/** After this time without a wrong token the delay of an address starts at the first step again. */
export const AUTH_FAILURE_RESET_MS = 15 * 60_000;

/** Addresses whose failures are counted; a few hundred kilobytes. Beyond that the least recently failing address is evicted. */
export const AUTH_FAILURE_MAX_ADDRESSES = 4_096;
