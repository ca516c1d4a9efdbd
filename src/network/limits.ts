/** Redirects that one request follows: the reference's number. */
export const MAX_REDIRECTS = 10;

/** Largest head of a response. Real ones have a few kilobytes; the reference accepts about this much. */
export const MAX_RESPONSE_HEAD_BYTES = 256 * 1024;

/** How much of a request body is written at a time. TLS copies what it is given: a whole body would be in memory three times. */
export const BODY_PIECE_BYTES = 256 * 1024;

/**
 * How long an idle connection to a web server is kept. Common servers close theirs after five seconds; a shorter time avoids most
 * requests on a connection that the server is closing.
 */
export const IDLE_CONNECTION_MS = 4_000;

/** Idle connections that one client keeps to one web server. */
export const MAX_IDLE_CONNECTIONS = 8;

/** Largest CA certificate file: a hundred times the size of a system's bundle. */
export const MAX_CA_FILE_BYTES = 32 * 1024 * 1024;

/** Largest response head of a proxy to CONNECT; only its status is used. */
export const MAX_PROXY_HEAD_BYTES = 16 * 1024;

/** Streams open at the same time on one HTTP/2 connection, if the server allows that many. Further ones use another connection. */
export const MAX_STREAMS_PER_HTTP2_CONNECTION = 100;

/**
 * How long requests wait for a connection that another request is opening and that they might share. A handshake across the world
 * takes less than half of it. One that hangs must not delay the other requests.
 */
export const SHARED_OPENING_MS = 1_000;

/** Flow-control windows of HTTP/2: for one stream, and for all streams of a connection. */
export const HTTP2_STREAM_WINDOW_BYTES = 512 * 1024;
export const HTTP2_CONNECTION_WINDOW_BYTES = 4 * 1024 * 1024;

/**
 * Headers of an HTTP/2 response. With header compression one byte can stand for four kilobytes: four megabytes in all. Real
 * responses have a few dozen headers; Node's default limit is 128.
 */
export const MAX_HTTP2_RESPONSE_HEADERS = 1024;

/** Web servers that a client remembers as speaking only HTTP/1.1. */
export const MAX_KNOWN_ROUTES = 256;

/** Loopback proxies that one sandboxed program can reach; environments name one or two. */
export const MAX_BRIDGED_PORTS = 8;
