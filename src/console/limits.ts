/** How long a sign-in code can be used: long enough to open a link, too short to find it in a log. */
export const CODE_TTL_MS = 60_000;

/** Codes that wait for a browser. A further one replaces the oldest of the owner that has most. */
export const MAX_CODES = 16;

/** How long a ticket can be used. The page opens its websocket immediately. */
export const TICKET_TTL_MS = 30_000;

/** Tickets of all sessions that wait for their websocket. A further one replaces the oldest of the owner that has most. */
export const MAX_TICKETS = 64;

/** Tickets of one session that wait for their websocket, or are being prepared. Each may hold a connection to an environment. */
export const MAX_TICKETS_PER_SESSION = 8;

/** Browsers that are signed in. A further one ends a session of the owner that has most: the one that was used longest ago. */
export const MAX_SESSIONS = 32;

/** Websockets of one session: one per tab and environment. */
export const MAX_SOCKETS_PER_SESSION = 32;

/** A session ends after this time without a request and without an open websocket. */
export const SESSION_IDLE_MS = 30 * 60_000;

/** A session ends after this time in any case. */
export const SESSION_MAX_MS = 12 * 3_600_000;

/** How often sessions are checked for their end. */
export const SESSION_CHECK_MS = 5_000;

/** Ended sessions whose reason is kept, so that the page can show it. */
export const MAX_ENDED_SESSIONS = 64;

/** Largest body of a request. The largest real one is a code. */
export const MAX_BODY_BYTES = 4_096;

/** Bytes of a code, ticket, cookie and key: too many to guess. */
export const SECRET_BYTES = 32;

/** Longest Host header: the longest name of DNS with a port. */
export const MAX_HOST_LENGTH = 260;

// Limits of the server that the command `console` starts. The servers behind it have their own.

/** Time allowed for a request. */
export const HANDSHAKE_TIMEOUT_MS = 10_000;

/** Websockets of all browsers. */
export const MAX_CONNECTIONS = 256;

/** Connections of browsers that are not websockets. A browser opens six. */
export const MAX_HTTP_SOCKETS = 64;

/** The largest message: that of a server and of its clients. */
export const MAX_MESSAGE_BYTES = 64 * 1024 * 1024;

/** Bytes of all messages together that have begun to arrive and are not complete. */
export const MAX_UNFINISHED_BYTES = 256 * 1024 * 1024;

/** How often a browser is pinged, and how long it may be silent. */
export const PING_INTERVAL_MS = 30_000;
export const PEER_SILENCE_TIMEOUT_MS = 90_000;

/** Wrong codes are logged at most this often. */
export const REFUSAL_LOG_MS = 10_000;
