/** Redirects that one request follows: what the reference follows. */
export const MAX_REDIRECTS = 10;

/** Largest head of an answer. Real ones have a few kilobytes; the reference takes about this much. */
export const MAX_RESPONSE_HEAD_BYTES = 256 * 1024;

/**
 * How long an idle connection to a web server is kept. Less than the five seconds after which common servers close theirs, so that a
 * request rarely meets a connection that is being closed.
 */
export const IDLE_CONNECTION_MS = 4_000;

/** Idle connections that one client keeps to one web server. */
export const MAX_IDLE_CONNECTIONS = 8;

/** Longest time that a timer can be set to, 24 days; a longer one would be over at once. */
export const MAX_TIMER_MS = 2 ** 31 - 1;

/** Largest file of certificate authorities: a hundred times what systems have. */
export const MAX_CA_FILE_BYTES = 32 * 1024 * 1024;

/** Largest answer of a proxy to CONNECT; what it says beyond the status is not used. */
export const MAX_PROXY_HEAD_BYTES = 16 * 1024;

/** Streams that may be open at once on one HTTP/2 connection whose server allows more; further ones get another connection. */
export const MAX_STREAMS_PER_HTTP2_CONNECTION = 100;

/**
 * How long requests wait for a connection that another one opens and that they might share. A handshake around the world takes less
 * than half of it; one that hangs must not hold up the others.
 */
export const SHARED_OPENING_MS = 1_000;

/** Bytes that a server may send ahead of the reader over HTTP/2: on one stream, and on all streams of a connection. */
export const HTTP2_STREAM_WINDOW_BYTES = 512 * 1024;
export const HTTP2_CONNECTION_WINDOW_BYTES = 4 * 1024 * 1024;

/**
 * Headers of an answer over HTTP/2, where a byte may stand for four kilobytes that were sent before: all together four megabytes. Real
 * answers have a few dozen, and Node by itself refuses more than 128.
 */
export const MAX_HTTP2_RESPONSE_HEADERS = 1024;

/** Web servers of which a client remembers that they do not speak HTTP/2. */
export const MAX_KNOWN_ROUTES = 256;

/** Proxies on this machine that one sandboxed program may reach; environments name one or two. */
export const MAX_BRIDGED_PORTS = 8;
